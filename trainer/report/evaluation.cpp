#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "trainer/metrics/evaluation.h"
#include "trainer/report/chart.h"
#include "trainer/report/html.h"

namespace rollcall::report {
namespace {

using metrics::ClassResult;
using metrics::Evaluation;

// The colour of a cell shows which share of a class's images the model takes for another class.
constexpr std::array kShares{0.02, 0.1, 0.25, 0.5, 0.75, 0.9};
constexpr std::size_t kMostClasses = 40;  // of the map
constexpr double kConfusionWidth = 720;
constexpr double kConfusionLeft = 180;
constexpr double kConfusionBottom = 24;

/// Returns the number by which classes are compared.
double quality_of(const Evaluation& evaluation, const ClassResult& one) {
  return evaluation.mean_average_precision ? one.average_precision : one.top1();
}

/// Returns the classes that have images, the worst first.
std::vector<std::size_t> worst_first(const Evaluation& evaluation) {
  std::vector<std::size_t> order;
  for (std::size_t label = 0; label < evaluation.classes.size(); ++label) {
    if (evaluation.classes[label].images > 0) {
      order.push_back(label);
    }
  }
  std::ranges::stable_sort(order, {},
                           [&](std::size_t label) { return quality_of(evaluation, evaluation.classes[label]); });
  return order;
}

/// Returns the number of the matrix, 0 if it has none.
std::int64_t images_at(const Evaluation& evaluation, std::size_t label, std::size_t predicted) {
  const auto found =
      evaluation.confusion.find({static_cast<std::int64_t>(label), static_cast<std::int64_t>(predicted)});
  return found == evaluation.confusion.end() ? 0 : found->second;
}

std::string shortened(const std::string& name) {
  constexpr std::size_t kMost = 24;
  return name.size() <= kMost ? name : name.substr(0, kMost - 3) + "...";
}

std::string confusion_cells(const Evaluation& evaluation, const std::vector<std::size_t>& shown, double side) {
  std::array<std::string, kShares.size() + 1> paths;
  for (std::size_t row = 0; row < shown.size(); ++row) {
    const auto images = static_cast<double>(evaluation.classes[shown[row]].images);
    for (std::size_t column = 0; column < shown.size(); ++column) {
      const double share = static_cast<double>(images_at(evaluation, shown[row], shown[column])) / images;
      if (share > 0) {
        const auto level = static_cast<std::size_t>(std::ranges::upper_bound(kShares, share) - kShares.begin());
        fmt::format_to(std::back_inserter(paths[level]), "M{:.1f} {:.1f}h{:.1f}v{:.1f}h{:.1f}z",
                       kConfusionLeft + static_cast<double>(column) * side, static_cast<double>(row) * side, side, side,
                       -side);
      }
    }
  }
  std::string svg;
  for (std::size_t level = 0; level < paths.size(); ++level) {
    svg += paths[level].empty() ? "" : fmt::format("<path class=\"h{}\" d=\"{}\"/>", level, paths[level]);
  }
  for (std::size_t row = 0; row < shown.size(); ++row) {
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kConfusionLeft - 6,
                       (static_cast<double>(row) + 0.5) * side + 4,
                       escaped(shortened(evaluation.classes[shown[row]].name)));
  }
  return svg;
}

std::string confusion_legend() {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t level = 0; level <= kShares.size(); ++level) {
    const std::string text = level == 0                ? "up to " + percent(kShares.front())
                             : level == kShares.size() ? percent(kShares.back()) + " and more"
                                                       : percent(kShares[level - 1]) + " to " + percent(kShares[level]);
    html += fmt::format(
        "<li><svg class=\"key\" viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path class=\"h{}\" d=\"M0 0H24V10H0Z\"/>"
        "</svg>{}</li>",
        level, text);
  }
  return html + "</ul>";
}

std::string confusion_map(const Evaluation& evaluation, std::vector<std::size_t> shown) {
  const std::size_t all = shown.size();
  shown.resize(std::min(all, kMostClasses));
  std::ranges::sort(shown);
  const double side = std::clamp((kConfusionWidth - kConfusionLeft) / static_cast<double>(shown.size()), 8.0, 28.0);
  const double height = side * static_cast<double>(shown.size());
  const std::string which = all > kMostClasses ? fmt::format(" of the {} worst of {} classes", kMostClasses, all) : "";
  return fmt::format(
      "<figure class=\"chart\" id=\"confusion\"><figcaption>Confusion matrix{}</figcaption><p>A row is a class, and "
      "its "
      "cells are what the model takes its images for, in the same order from left to right.</p>\n<svg viewBox=\"0 0 {} "
      "{:.0f}\" role=\"img\" aria-labelledby=\"confusion-title\"><title id=\"confusion-title\">Confusion matrix: the "
      "table "
      "below has the worst classes, and confusion.csv all numbers</title>{}</svg>\n{}</figure>\n",
      which, kConfusionWidth, height + kConfusionBottom, confusion_cells(evaluation, shown, side), confusion_legend());
}

/// Returns "cow (3), ape (1)": the classes that images of `label` are most often taken for.
std::string taken_for(const Evaluation& evaluation, std::size_t label) {
  constexpr std::size_t kMost = 3;
  std::vector<std::pair<std::int64_t, std::int64_t>> wrong;  // images, class
  const auto first = static_cast<std::int64_t>(label);
  for (auto cell = evaluation.confusion.lower_bound({first, 0});
       cell != evaluation.confusion.end() && cell->first.first == first; ++cell) {
    if (cell->first.second != first) {
      wrong.emplace_back(-cell->second, cell->first.second);
    }
  }
  std::ranges::sort(wrong);
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, wrong.size()); ++i) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ",
                        evaluation.classes[static_cast<std::size_t>(wrong[i].second)].name, -wrong[i].first);
  }
  return text.empty() ? "-" : text;
}

std::string worst_table(const Evaluation& evaluation, const std::vector<std::size_t>& order) {
  constexpr std::size_t kMost = 20;
  const bool several = evaluation.mean_average_precision.has_value();
  std::vector<std::vector<std::string>> rows{
      several ? std::vector<std::string>{"class", "images", "average precision", "taken for it", "of these right"}
              : std::vector<std::string>{"class", "images", "top-1", "taken for"}};
  for (std::size_t i = 0; i < std::min(kMost, order.size()); ++i) {
    const ClassResult& one = evaluation.classes[order[i]];
    rows.push_back({one.name, std::to_string(one.images), percent(quality_of(evaluation, one))});
    if (several) {
      rows.back().insert(rows.back().end(), {std::to_string(one.predicted), std::to_string(one.correct)});
    } else {
      rows.back().push_back(taken_for(evaluation, order[i]));
    }
  }
  return html_table(fmt::format("Classes, the worst first ({} of {})", rows.size() - 1, order.size()), rows);
}

}  // namespace

std::string evaluation_html(const Run& run) {
  const std::vector<std::size_t> order = run.evaluation ? worst_first(*run.evaluation) : std::vector<std::size_t>();
  if (order.empty()) {
    return "";
  }
  const Evaluation& evaluation = *run.evaluation;
  const metrics::RunningAverage& totals = evaluation.totals;
  const std::optional<double>& precision = evaluation.mean_average_precision;
  std::vector<std::vector<std::string>> rows{
      {"what", "value"},
      {"weights", evaluation.checkpoint},
      {"images", fmt::format("{}, {} of {}", totals.samples, evaluation.split, evaluation.data)},
      {"top-1", fmt::format("{:.2f} %", 100 * totals.top1())},
      {"top-5", fmt::format("{:.2f} %", 100 * totals.top5())},
      {"loss", short_number(totals.loss())},
      {"unreadable images", std::to_string(totals.bad())}};
  if (precision) {
    rows.insert(rows.begin() + 3, {"mean average precision", fmt::format("{:.2f} %", 100 * *precision)});
  }
  return html_table("The last evaluation in this folder (--evaluate)", rows) +
         (precision ? "" : confusion_map(evaluation, order)) + worst_table(evaluation, order);
}

}  // namespace rollcall::report
