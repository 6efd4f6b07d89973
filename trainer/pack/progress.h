#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace rollcall::pack {

/// "1.5 GiB", "312 B".
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

/// Shows how far a loop over files came, on a file descriptor that it does not own: one line that is redrawn on a
/// terminal, else a line every ten seconds. One thread.
class Progress {
 public:
  enum class Style { Auto, Bar, Lines, None };

  Progress(int descriptor, Style style);
  /// A loop of `total` files begins; `what` is its name: "packing train.h5". `done_before`: already done by an earlier
  /// run, not counted in the speed.
  void begin(std::string what, std::uint64_t total, std::uint64_t done_before = 0);
  /// One more is done; `bytes` have come out in all.
  void step(std::uint64_t done, std::uint64_t bytes);
  /// A line of its own.
  void message(std::string_view text);
  /// Ends a redrawn line.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void write(std::string_view text) const;
  [[nodiscard]] std::string text(std::uint64_t done, std::uint64_t bytes, double seconds) const;

  int descriptor_;
  Style style_;
  std::string what_;
  std::uint64_t total_ = 0;
  std::uint64_t done_before_ = 0;
  Clock::time_point begun_;
  Clock::time_point shown_;
  bool line_open_ = false;
};

}  // namespace rollcall::pack
