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

/// What is drawn: lines over steps. All texts may be anything; `id` is a word.
struct Chart {
  std::string id;
  std::string title;
  std::string unit;
  bool stacked = false;  ///< areas on top of each other; all lines have the same steps
  bool dots = false;
  std::vector<ChartLine> lines;
};

/// A `<figure>`: the drawing as SVG with a description, a legend, a table of some of its values, and all values as JSON
/// for the page's script, which shows them, zooms, and gives them as CSV. It is complete without the script.
[[nodiscard]] std::string chart_html(const Chart& chart);

/// Round numbers for an axis from `from` to `to`, about `wanted` of them (1, 2 or 5 times a power of ten apart). Pure.
[[nodiscard]] std::vector<double> ticks(double from, double to, int wanted);

/// A `<figure>`: what ranks did by themselves in a step, over time, the slowest marked. Empty where nothing is
/// recorded.
[[nodiscard]] std::string heat_map_html(const Run& run);

}  // namespace rollcall::report
