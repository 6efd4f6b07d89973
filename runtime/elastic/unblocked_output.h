#pragma once

#include <chrono>
#include <string_view>

namespace rollcall::elastic {

/// How long a terminal, or the reader of a pipe, may accept nothing before output to it is dropped.
inline constexpr std::chrono::milliseconds kTerminalPatience{15'000};

/// Waits up to `patience` until `descriptor` can be written to. Returns true on an error of the descriptor as well.
[[nodiscard]] bool takes_more(int descriptor, std::chrono::milliseconds patience);

/// A terminal or pipe that may have no reader. poll(2) reports that it accepts data, not how much: a terminal with room
/// for one byte blocks a write of two, and another process may fill a pipe meanwhile. So writes are non-blocking, and
/// go through a separate open file description, because other processes share the mode of the given one.
class UnblockedOutput {
 public:
  /// `descriptor` stays the caller's.
  explicit UnblockedOutput(int descriptor);
  UnblockedOutput(const UnblockedOutput&) = delete;
  UnblockedOutput& operator=(const UnblockedOutput&) = delete;
  ~UnblockedOutput();

  /// Writes in pieces that a pipe accepts as a whole, until nothing was accepted for `patience`. Returns the rest; an
  /// empty rest where the output is broken, as in `| head`. Thread-safe.
  std::string_view write(std::string_view text, std::chrono::milliseconds patience) const;

 private:
  int descriptor_;
  int own_;  ///< -1: the given one is a file, or cannot be opened again, such as a socket
};

}  // namespace rollcall::elastic
