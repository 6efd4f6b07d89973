#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace rollcall::metrics {

/// Shows how far a long work came, on a file descriptor that it does not own: one line that is redrawn on a
/// terminal, else a line every ten seconds. One thread.
class WorkProgress {
 public:
  enum class Style { Auto, Bar, Lines, None };
  /// Of "auto", "bar", "lines" or "none", as --progress takes them.
  [[nodiscard]] static Style style_of(std::string_view name);

  /// `unit`: of what is counted, as in "120 img/s".
  WorkProgress(int descriptor, Style style, std::string unit);
  /// Work on `total` things begins; `what` is its name: "packing train.h5". `done_before`: already done by an earlier
  /// run, not counted in the speed.
  void begin(std::string what, std::uint64_t total, std::uint64_t done_before = 0);
  /// So many are done, and so many bytes went through, in all.
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
  std::string unit_;
  std::string what_;
  std::uint64_t total_ = 0;
  std::uint64_t done_before_ = 0;
  Clock::time_point begun_;
  Clock::time_point shown_;
  bool line_open_ = false;
};

}  // namespace rollcall::metrics
