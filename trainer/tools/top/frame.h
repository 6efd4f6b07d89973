#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/report/run.h"

namespace rollcall::top {

/// How a frame is drawn.
struct Look {
  std::size_t width = 80;
  std::size_t height = 24;
  bool colours = false;  ///< escape sequences for colours and bold
  bool utf8 = true;      ///< blocks for curves; else ASCII
};

/// What a terminal shows of a run: at most `height` lines of at most `width` columns, without line ends. `now`: seconds
/// since the epoch. Pure; texts of the run steer no terminal.
[[nodiscard]] std::vector<std::string> frame(const report::Run& run, const Look& look, double now);

/// The course of a curve in `width` columns of one line, by eight levels from its least mean to its most.
[[nodiscard]] std::string small_curve(const report::Series& series, std::size_t width, bool utf8);

/// Seconds until the last step at the speed of this start; negative where nothing is known of one.
[[nodiscard]] double seconds_to_go(const report::Run& run);

}  // namespace rollcall::top
