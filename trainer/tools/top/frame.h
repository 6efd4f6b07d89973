#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/report/run.h"

namespace rollcall::top {

/// The layout of a frame.
struct FrameOptions {
  std::size_t width = 80;
  std::size_t height = 24;
  bool colours = false;  ///< use escape sequences for colours and bold
  bool utf8 = true;      ///< draw curves with block characters; else ASCII
};

/// Returns the lines that a terminal shows of a run: at most `height` lines of at most `width` columns, without line
/// ends. `now` is in seconds since the epoch. Pure; texts of the run cannot contain escape sequences.
[[nodiscard]] std::vector<std::string> frame(const report::Run& run, const FrameOptions& look, double now);

/// Draws a curve in `width` columns of one line, with eight heights between its smallest and largest mean.
[[nodiscard]] std::string sparkline(const report::Series& series, std::size_t width, bool utf8);

/// Returns the seconds until the last step at the current speed; negative if unknown.
[[nodiscard]] double seconds_remaining(const report::Run& run);

}  // namespace rollcall::top
