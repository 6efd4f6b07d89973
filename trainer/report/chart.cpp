#include "trainer/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "trainer/metrics/human_numbers.h"
#include "trainer/report/html.h"

namespace rollcall::report {
namespace {

// The colours of the lines, which also differ in their dashes.
constexpr std::size_t kColours = 8;

// The script of the page (page.js) uses the same sizes when it zooms.
constexpr double kWidth = 720;
constexpr double kHeight = 274;
constexpr double kLeft = 64;
constexpr double kRight = 24;
constexpr double kTop = 10;
constexpr double kBottom = 48;
constexpr double kNothing = 1e-12;

/// The range of the data on the drawing.
struct Area {
  double first = 0;  // step
  double last = 1;
  double least = 0;
  double most = 1;
  bool logarithmic = false;

  [[nodiscard]] double x(double step) const {
    return kLeft + (step - first) / (last - first) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    const double share = logarithmic ? std::log(std::max(value, least) / least) / std::log(most / least)
                                     : (value - least) / (most - least);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }
};

Area area_of(const Chart& chart) {
  Area area{std::numeric_limits<double>::max(), 0, std::numeric_limits<double>::max(),
            std::numeric_limits<double>::lowest()};
  for (const ChartLine& line : chart.lines) {
    for (const Point& point : line.points) {
      area.first = std::min(area.first, static_cast<double>(point.first_step));
      area.last = std::max(area.last, static_cast<double>(point.last_step));
      area.least = std::min(area.least, chart.stacked || chart.dots ? 0 : point.mean());
      area.most = std::max(area.most, point.mean());
    }
  }
  area.last = std::max(area.last, area.first + 1);
  if (chart.has_spike()) {
    area.logarithmic = true;
    area.least /= 1.1;
    area.most *= 1.1;
    return area;
  }
  const double flat = std::max(std::abs(area.most) * 0.1, kNothing);
  const double spread = area.most - area.least;
  const double margin = spread > flat * kNothing * 1e3 ? 0.06 * spread : 0;  // less is rounding
  area.most += margin > 0 ? margin : flat;
  if (!chart.stacked && !chart.dots) {
    const bool positive = area.least >= 0;
    area.least -= margin > 0 ? margin : flat;
    area.least = positive ? std::max(area.least, 0.0) : area.least;
  }
  return area;
}

std::string grid(const Area& area, const Chart& chart) {
  std::string svg = "<g class=\"grid\">";
  for (const double value :
       area.logarithmic ? ticks_of_powers(area.least, area.most) : ticks(area.least, area.most, 5)) {
    svg += fmt::format("<path d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft,
                       area.y(value), kWidth - kRight, kLeft - 6, area.y(value) + 4, short_number(value));
  }
  for (const double step : ticks(area.first, area.last, 7)) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", area.x(step),
                       kHeight - kBottom + 16, short_number(step));
  }
  for (const double step : ticks(area.first, area.last, 3)) {
    const std::string other = chart.scale.text(step);
    svg += other.empty() ? ""
                         : fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", area.x(step),
                                       kHeight - kBottom + 31, other);
  }
  return svg + fmt::format(
                   "</g><text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"end\">step</text>"
                   "<text class=\"axis\" x=\"4\" y=\"14\">{}</text>",
                   kWidth - kRight, kHeight - 4,
                   escaped(chart.unit +
                           (area.logarithmic ? (chart.unit.empty() ? "" : ", ") + std::string("logarithmic") : "")));
}

/// Returns the SVG path `M x y L x y ...` through one value of each point.
template <typename Value>
std::string path_of(const Area& area, const std::vector<Point>& points, const Value& value, bool backwards = false) {
  std::string path;
  if (points.size() == 1) {  // of a stack: the whole width
    const double from = backwards ? area.last : area.first;
    return fmt::format("{0}{1:.1f} {2:.1f}L{3:.1f} {2:.1f}", backwards ? 'L' : 'M', area.x(from), area.y(value(0)),
                       area.x(backwards ? area.first : area.last));
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t at = backwards ? points.size() - 1 - i : i;
    fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", i == 0 && !backwards ? 'M' : 'L',
                   area.x(static_cast<double>(points[at].last_step)), area.y(value(at)));
  }
  return path;
}

std::string drawn_dots(const Area& area, const ChartLine& line, std::size_t number) {
  std::string path;
  for (const Point& point : line.points) {
    fmt::format_to(std::back_inserter(path), "M{:.1f} {:.1f}h0", area.x(static_cast<double>(point.last_step)),
                   area.y(point.mean()));
  }
  return fmt::format("<path class=\"dots c{}\" d=\"{}\"/>", number % kColours, path);
}

std::string drawn_line(const Area& area, const ChartLine& line, std::size_t number) {
  const auto& points = line.points;
  const bool spread = std::ranges::any_of(points, [](const Point& point) { return point.most > point.least; });
  std::string svg;
  if (points.size() == 1) {  // a path of one point draws nothing
    return drawn_dots(area, line, number);
  }
  if (spread) {
    svg += fmt::format("<path class=\"band c{}\" d=\"{}{}Z\"/>", number % kColours,
                       path_of(area, points, [&](std::size_t i) { return points[i].most; }),
                       path_of(
                           area, points, [&](std::size_t i) { return points[i].least; }, true));
  }
  return svg + fmt::format("<path class=\"line c{}\" d=\"{}\"/>", number % kColours,
                           path_of(area, points, [&](std::size_t i) { return points[i].mean(); }));
}

std::string drawn_stack(const Area& area, const Chart& chart) {
  std::vector<double> below(chart.lines.front().points.size());
  std::string svg;
  for (std::size_t number = 0; number < chart.lines.size(); ++number) {
    const std::vector<Point>& points = chart.lines[number].points;
    std::vector<double> above = below;
    for (std::size_t i = 0; i < points.size(); ++i) {
      above[i] += points[i].mean();
    }
    svg += fmt::format("<path class=\"area c{}\" d=\"{}{}Z\"/>", number % kColours,
                       path_of(area, points, [&](std::size_t i) { return above[i]; }),
                       path_of(
                           area, points, [&](std::size_t i) { return below[i]; }, true));
    below = std::move(above);
  }
  return svg;
}

/// Returns the sums of the lines' points up to each line, for a stacked chart.
Chart top_of_stack(const Chart& chart) {
  Chart top = chart;
  top.lines.resize(1);
  for (std::size_t i = 0; i < top.lines.front().points.size(); ++i) {
    Point& point = top.lines.front().points[i];
    double sum = 0;
    for (const ChartLine& line : chart.lines) {
      sum += line.points[i].mean();
    }
    point.sum = sum * static_cast<double>(point.count);
  }
  return top;
}

std::string description(const Chart& chart) {
  std::string text = chart.title + " over steps.";
  for (const ChartLine& line : chart.lines) {
    double least = line.points.front().least;
    double most = line.points.front().most;
    for (const Point& point : line.points) {
      least = std::min(least, point.least);
      most = std::max(most, point.most);
    }
    text += fmt::format(" {}: first {}, last {}, between {} and {} {}.", line.name,
                        short_number(line.points.front().mean()), short_number(line.points.back().mean()),
                        short_number(least), short_number(most), chart.unit);
  }
  return text;
}

std::string legend(const Chart& chart) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    html += fmt::format(
        "<li><svg class=\"key\" viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path class=\"{} c{}\" d=\"{}\"/>"
        "</svg>{}</li>",
        chart.stacked ? "area" : "line", i % kColours, chart.stacked ? "M0 0H24V10H0Z" : "M0 5H24",
        escaped(chart.lines[i].name));
  }
  return html + "</ul>";
}

/// Returns a table with some twelve rows, for readers that do not see the drawing.
std::string value_table(const Chart& chart) {
  constexpr std::size_t kRowsOfTable = 12;
  std::vector<std::vector<std::string>> rows{{"line", "steps", "mean", "least", "most"}};
  for (const ChartLine& line : chart.lines) {
    for (const Point& point : thinned(line.points, std::max<std::size_t>(kRowsOfTable / chart.lines.size(), 3))) {
      rows.push_back({line.name,
                      point.first_step == point.last_step ? std::to_string(point.last_step)
                                                          : fmt::format("{}-{}", point.first_step, point.last_step),
                      short_number(point.mean()), short_number(point.least), short_number(point.most)});
    }
  }
  return "<details><summary>Values</summary>" + html_table(chart.title + ", values", rows) + "</details>";
}

/// Returns {"title", "unit", "stacked", "dots", "lines": [{"n": name, "f": first steps, "x": last steps, "m": means,
/// "a", "b": least and most}]}, without "f", "a" and "b" where each point is one value.
std::string data_json(const Chart& chart) {
  std::string lines;
  for (const ChartLine& line : chart.lines) {
    const auto list = [&](const auto& value) {
      std::string text;
      for (const Point& point : line.points) {
        fmt::format_to(std::back_inserter(text), "{}{:.6g}", text.empty() ? "" : ",", value(point));
      }
      return "[" + text + "]";
    };
    const auto steps = [&](std::int64_t Point::*step) {
      std::string text;
      for (const Point& point : line.points) {
        fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ",", point.*step);
      }
      return "[" + text + "]";
    };
    lines += fmt::format("{}{{\"n\":{},\"x\":{},\"m\":{}", lines.empty() ? "" : ",", json_text(line.name),
                         steps(&Point::last_step), list([](const Point& point) { return point.mean(); }));
    if (std::ranges::any_of(line.points, [](const Point& point) { return point.count > 1; })) {
      lines += fmt::format(",\"f\":{},\"a\":{},\"b\":{}", steps(&Point::first_step),
                           list([](const Point& point) { return point.least; }),
                           list([](const Point& point) { return point.most; }));
    }
    lines += "}";
  }
  return fmt::format("{{\"title\":{},\"unit\":{},\"stacked\":{},\"dots\":{},\"log\":{},\"lines\":[{}]}}",
                     json_text(chart.title), json_text(chart.unit), chart.stacked, chart.dots, chart.has_spike(),
                     lines);
}

}  // namespace

std::vector<double> ticks(double from, double to, int wanted) {
  std::vector<double> found;
  if (!(to > from) || wanted < 1) {
    return found;
  }
  const double rough = (to - from) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double factor = rough / power;
  const double apart = power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
  const double first = std::ceil(from / apart - kNothing);
  for (int i = 0; i <= 2 * wanted && (first + i) * apart <= to + apart * kNothing; ++i) {
    found.push_back((first + i) * apart);
  }
  return found;
}

std::vector<double> ticks_of_powers(double from, double to) {
  std::vector<double> found;
  if (!(from > 0) || !(to > from)) {
    return found;
  }
  const double decades = std::log10(to / from);
  const int apart = static_cast<int>(std::ceil(decades / 8));  // of powers
  const bool few = decades < 4;
  for (int power = static_cast<int>(std::floor(std::log10(from))); std::pow(10, power) <= to; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, power);
      if ((factor == 1 || few) && power % std::max(apart, 1) == 0 && value >= from && value <= to) {
        found.push_back(value);
      }
    }
  }
  return found;
}

std::string StepScale::text(double step) const {
  std::string text = steps_of_epoch > 0 ? fmt::format("epoch {:.3g}", step / static_cast<double>(steps_of_epoch)) : "";
  const auto after = std::ranges::lower_bound(seconds, step, {},
                                              [](const Point& point) { return static_cast<double>(point.last_step); });
  if (after != seconds.end()) {
    const double to = static_cast<double>(after->last_step);
    const double from = after == seconds.begin() ? 0 : static_cast<double>(std::prev(after)->last_step);
    const double before = after == seconds.begin() ? 0 : std::prev(after)->most;
    const double share = to > from ? (step - from) / (to - from) : 1;
    text += (text.empty() ? "" : ", ") + metrics::human_duration(before + share * (after->most - before));
  }
  return text;
}

bool Chart::has_spike() const {
  constexpr double kFar = 10;  // times the median
  std::vector<double> values;
  for (const ChartLine& line : lines) {
    for (const Point& point : line.points) {
      values.push_back(point.mean());
    }
  }
  if (stacked || dots || values.size() < 3 || std::ranges::min(values) <= 0) {
    return false;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return std::ranges::max(values) >= kFar * *middle;
}

std::string scale_json(const StepScale& scale) {
  std::string steps;
  std::string seconds;
  for (const Point& point : scale.seconds) {
    const char* const comma = steps.empty() ? "" : ",";
    steps += fmt::format("{}{}", comma, point.last_step);
    seconds += fmt::format("{}{:.6g}", comma, point.most);
  }
  return fmt::format("{{\"scale\":true,\"e\":{},\"x\":[{}],\"s\":[{}]}}", scale.steps_of_epoch, steps, seconds);
}

std::string chart_html(const Chart& chart) {
  const Area area = area_of(chart.stacked ? top_of_stack(chart) : chart);
  std::string drawing;
  if (chart.stacked) {
    drawing = drawn_stack(area, chart);
  } else {
    for (std::size_t i = 0; i < chart.lines.size(); ++i) {
      drawing += chart.dots ? drawn_dots(area, chart.lines[i], i) : drawn_line(area, chart.lines[i], i);
    }
  }
  return fmt::format(
      "<figure class=\"chart\" id=\"{0}\"><figcaption>{1}</figcaption>\n"
      "<svg viewBox=\"0 0 {2} {3}\" role=\"img\" tabindex=\"0\" aria-labelledby=\"{0}-title\" "
      "aria-describedby=\"{0}-text\">"
      "<title id=\"{0}-title\">{1}</title><desc id=\"{0}-text\">{4}</desc>"
      "<clipPath id=\"{0}-clip\"><path d=\"M{5} {6}H{7}V{8}H{5}Z\"/></clipPath>"
      "{9}<g class=\"drawing\" clip-path=\"url(#{0}-clip)\">{10}</g></svg>\n{11}{12}\n"
      "<script type=\"application/json\">{13}</script></figure>\n",
      chart.id, escaped(chart.title), kWidth, kHeight, escaped(description(chart)), kLeft, kTop, kWidth - kRight,
      kHeight - kBottom, grid(area, chart), drawing, legend(chart), value_table(chart), data_json(chart));
}

}  // namespace rollcall::report
