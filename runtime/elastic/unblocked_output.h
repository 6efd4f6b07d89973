#pragma once

#include <chrono>
#include <string_view>

namespace rollcall::elastic {

/// How long a terminal, or who reads the pipe in its place, may take nothing before it counts as nobody's.
inline constexpr std::chrono::milliseconds kTerminalPatience{15'000};

/// Whether something can be written to `descriptor` within `patience`; also where that is an error.
[[nodiscard]] bool takes_more(int descriptor, std::chrono::milliseconds patience);

/// A terminal, or a pipe in its place, which nobody may read any longer. poll(2) says that it takes something, not how
/// much: a terminal with room for one byte holds up who writes two, and another process may fill the room of a pipe
/// meanwhile. So it is written to without waiting in write(2), through an open file description of its own: the mode
/// of the given one is that of other processes as well.
class UnblockedOutput {
 public:
  /// `descriptor` is not owned.
  explicit UnblockedOutput(int descriptor);
  UnblockedOutput(const UnblockedOutput&) = delete;
  UnblockedOutput& operator=(const UnblockedOutput&) = delete;
  ~UnblockedOutput();

  /// Writes in pieces that a pipe takes as a whole, until nothing was taken for `patience`. Returns what was not taken;
  /// nothing of it where the output is broken, as in `| head`. Any thread.
  std::string_view write(std::string_view text, std::chrono::milliseconds patience) const;

 private:
  int descriptor_;
  int own_;  ///< -1: the given one cannot be opened again, as a socket, or is a file
};

}  // namespace rollcall::elastic
