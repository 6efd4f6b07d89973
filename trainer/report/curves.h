#pragma once

#include <string>
#include <vector>

#include "trainer/report/run.h"

namespace rollcall::report {

/// A curve of a run by its name: "loss", "validation loss", "a step: data".
struct Curve {
  std::string name;
  const Series* series = nullptr;  ///< of the run
};

/// A chart: what belongs together, one line each.
struct ChartPlan {
  std::string id;
  std::string title;
  std::string unit;
  double scale = 1;  ///< of the values: 100 for fractions that are shown in percent
  bool stacked = false;
  bool dots = false;  ///< single events rather than a course
  std::vector<Curve> curves;
};

/// The charts of a run, those without a value left out.
[[nodiscard]] std::vector<ChartPlan> charts_of(const Run& run);

/// All curves of a run that have values.
[[nodiscard]] std::vector<Curve> curves_of(const Run& run);

}  // namespace rollcall::report
