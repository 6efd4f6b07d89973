#pragma once

#include <string>
#include <vector>

#include "trainer/report/run.h"

namespace rollcall::report {

/// A curve of a run.
struct Curve {
  std::string name;                ///< "loss", "validation loss", "a step: data"
  const Series* series = nullptr;  ///< points into the run
};

/// The curves of one chart.
struct ChartPlan {
  std::string id;
  std::string title;
  std::string unit;
  double scale = 1;  ///< factor of the values: 100 for fractions that are shown in percent
  bool stacked = false;
  bool dots = false;  ///< single events, drawn as points
  std::vector<Curve> curves;
};

/// Returns the charts of a run that have values.
[[nodiscard]] std::vector<ChartPlan> charts_of(const Run& run);

/// Returns the curves of a run that have values.
[[nodiscard]] std::vector<Curve> curves_of(const Run& run);

}  // namespace rollcall::report
