#pragma once

#include <string>
#include <vector>

#include "trainer/report/run.h"
#include "trainer/report/series.h"

namespace rollcall::report {

/// A line of a chart, its points in the chart's unit.
struct ChartLine {
  std::string name;
  std::vector<Point> points;
};

/// What a step is in other measures; nothing where that is not known, or is another for each line.
struct StepScale {
  std::int64_t steps_of_epoch = 0;  ///< 0: unknown
  std::vector<Point> seconds;       ///< since the first start; empty: unknown

  /// "epoch 3.2, 1 h 02 min" of a step; empty where nothing is known. Pure.
  [[nodiscard]] std::string text(double step) const;
};

/// What is drawn: lines over steps. All texts may be anything; `id` is a word.
struct Chart {
  std::string id;
  std::string title;
  std::string unit;
  bool stacked = false;  ///< areas on top of each other; all lines have the same steps
  bool dots = false;
  std::vector<ChartLine> lines;
  StepScale scale;

  /// Whether a few values are so far above the others that only a logarithmic axis shows these.
  [[nodiscard]] bool has_spike() const;
};

/// A `<figure>`: the drawing as SVG with a description, a legend, a table of some of its values, and all values as JSON
/// for the page's script, which shows them, zooms, and gives them as CSV. It is complete without the script.
[[nodiscard]] std::string chart_html(const Chart& chart);

/// Round numbers for an axis from `from` to `to`, about `wanted` of them (1, 2 or 5 times a power of ten apart). Pure.
[[nodiscard]] std::vector<double> ticks(double from, double to, int wanted);

/// For a logarithmic axis, `from` > 0: powers of ten, and 2 and 5 times these where there are few. Pure.
[[nodiscard]] std::vector<double> ticks_of_powers(double from, double to);

/// StepScale of all charts of a page, for its script: {"scale":true,"e":steps of an epoch,"x":[steps],"s":[seconds]}.
[[nodiscard]] std::string scale_json(const StepScale& scale);

/// A `<figure>`: what ranks did by themselves in a step, over time, the slowest marked. Empty where nothing is
/// recorded.
[[nodiscard]] std::string heat_map_html(const Run& run);

}  // namespace rollcall::report
