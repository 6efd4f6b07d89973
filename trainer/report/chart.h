#pragma once

#include <string>
#include <vector>

#include "trainer/report/run.h"
#include "trainer/report/series.h"

namespace rollcall::report {

/// A line of a chart.
struct ChartLine {
  std::string name;
  std::vector<Point> points;  ///< in the chart's unit
};

/// Converts steps to epochs and times. Unset values are unknown, or differ between the lines.
struct StepScale {
  std::int64_t steps_of_epoch = 0;  ///< 0: unknown
  std::vector<Point> seconds;       ///< since the first start; empty: unknown

  /// Returns "epoch 3.2, 1 h 02 min" for a step; empty where both are unknown. Pure.
  [[nodiscard]] std::string text(double step) const;
};

/// A chart of lines over steps. Its texts are escaped; `id` must be a word.
struct Chart {
  std::string id;
  std::string title;
  std::string unit;
  bool stacked = false;  ///< areas on top of each other; all lines have the same steps
  bool dots = false;     ///< points without a line between them
  std::vector<ChartLine> lines;
  StepScale scale;

  /// Returns whether a few values are so much larger than the others that the chart needs a logarithmic axis.
  [[nodiscard]] bool has_spike() const;
};

/// Returns a `<figure>` with an SVG drawing, its description, a legend, a table of some values, and all values as JSON
/// for the page's script, which shows values, zooms and exports CSV. It is complete without the script.
[[nodiscard]] std::string chart_html(const Chart& chart);

/// Returns about `wanted` round numbers from `from` to `to` for an axis, 1, 2 or 5 times a power of ten apart. Pure.
[[nodiscard]] std::vector<double> ticks(double from, double to, int wanted);

/// Returns numbers for a logarithmic axis, `from` > 0: powers of ten, and 2 and 5 times these where there are few.
/// Pure.
[[nodiscard]] std::vector<double> ticks_of_powers(double from, double to);

/// Formats the StepScale of a page's charts for its script: {"scale":true,"e":steps of an epoch,"x":[steps],
/// "s":[seconds]}.
[[nodiscard]] std::string scale_json(const StepScale& scale);

/// Returns a `<figure>` with each rank's own time per step over the run, which marks the slowest one. Empty without
/// records.
[[nodiscard]] std::string heat_map_html(const Run& run);

/// Returns the results of the run's last evaluation: a confusion matrix and its worst classes. Empty without one.
[[nodiscard]] std::string evaluation_html(const Run& run);

}  // namespace rollcall::report
