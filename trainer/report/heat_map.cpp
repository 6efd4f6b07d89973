#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "trainer/report/chart.h"
#include "trainer/report/html.h"

namespace rollcall::report {
namespace {

// The colour of a cell shows its time as a multiple of the median over all ranks and times.
constexpr std::array kLevels{0.9, 1.05, 1.15, 1.3, 1.6, 2.0};
constexpr double kMapWidth = 720;
constexpr double kMapLeft = 64;
constexpr double kMapBottom = 24;

double median_cell(const RankGrid& grid) {
  std::vector<double> cells;
  for (std::size_t row = 0; row < grid.rows(); ++row) {
    for (std::size_t column = 0; column < grid.columns().size(); ++column) {
      if (const auto cell = grid.cell(row, column)) {
        cells.push_back(*cell);
      }
    }
  }
  if (cells.empty()) {
    return 0;
  }
  const auto middle = cells.begin() + static_cast<std::ptrdiff_t>(cells.size() / 2);
  std::ranges::nth_element(cells, middle);
  return *middle;
}

std::size_t level_of(double times) {
  return static_cast<std::size_t>(std::ranges::upper_bound(kLevels, times) - kLevels.begin());
}

std::string row_name(const RankGrid& grid, std::size_t row) {
  const std::size_t first = row * grid.ranks_of_row();
  const std::size_t last = std::min(first + grid.ranks_of_row(), grid.ranks().size()) - 1;
  return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
}

std::string row_labels(const RankGrid& grid, double height, std::size_t marked) {
  constexpr std::size_t kMostLabels = 16;
  const std::size_t apart = (grid.rows() + kMostLabels - 1) / kMostLabels;
  std::string svg;
  for (std::size_t row = 0; row < grid.rows(); ++row) {
    if (row % apart == 0 || row == marked) {
      svg += fmt::format("<text{} x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}{}</text>",
                         row == marked ? " class=\"marked\"" : "", kMapLeft - 6,
                         (static_cast<double>(row) + 0.5) * height + 4, row == marked ? "\u25b6 " : "",
                         row_name(grid, row));
    }
  }
  return svg;
}

/// Draws one path per colour level, with neighbouring cells of a row as one rectangle.
std::string cells(const RankGrid& grid, double median, double width, double height) {
  std::array<std::string, kLevels.size() + 1> paths;
  for (std::size_t row = 0; row < grid.rows(); ++row) {
    for (std::size_t column = 0; column < grid.columns().size();) {
      const auto cell = grid.cell(row, column);
      const std::size_t begin = column++;
      if (!cell) {
        continue;
      }
      const std::size_t level = level_of(*cell / median);
      for (; column < grid.columns().size(); ++column) {
        const auto next = grid.cell(row, column);
        if (!next || level_of(*next / median) != level) {
          break;
        }
      }
      fmt::format_to(std::back_inserter(paths[level]), "M{:.1f} {:.1f}h{:.1f}v{:.1f}h{:.1f}z",
                     kMapLeft + static_cast<double>(begin) * width, static_cast<double>(row) * height,
                     static_cast<double>(column - begin) * width, height, -static_cast<double>(column - begin) * width);
    }
  }
  std::string svg;
  for (std::size_t level = 0; level < paths.size(); ++level) {
    svg += paths[level].empty() ? "" : fmt::format("<path class=\"h{}\" d=\"{}\"/>", level, paths[level]);
  }
  return svg;
}

std::string map_legend() {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t level = 0; level <= kLevels.size(); ++level) {
    const std::string text = level == 0 ? fmt::format("below {:.2g} x median", kLevels.front())
                             : level == kLevels.size()
                                 ? fmt::format("{} x median and more", kLevels.back())
                                 : fmt::format("{:.3g} to {:.3g}", kLevels[level - 1], kLevels[level]);
    html += fmt::format(
        "<li><svg class=\"key\" viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path class=\"h{}\" "
        "d=\"M0 0H24V10H0Z\"/></svg>{}</li>",
        level, text);
  }
  return html + "</ul>";
}

std::string grid_json(const RankGrid& grid, double median) {
  std::string text = fmt::format("{{\"heat\":true,\"median\":{:.4g},\"rows\":[", median);
  for (std::size_t row = 0; row < grid.rows(); ++row) {
    text += fmt::format("{}\"{}\"", row > 0 ? "," : "", row_name(grid, row));
  }
  text += "],\"columns\":[";
  for (std::size_t column = 0; column < grid.columns().size(); ++column) {
    text += fmt::format("{}\"{}-{}\"", column > 0 ? "," : "", grid.columns()[column].first_step,
                        grid.columns()[column].last_step);
  }
  text += "],\"cells\":[";
  for (std::size_t row = 0; row < grid.rows(); ++row) {
    text += row > 0 ? ",[" : "[";
    for (std::size_t column = 0; column < grid.columns().size(); ++column) {
      const auto cell = grid.cell(row, column);
      text += column > 0 ? "," : "";
      text += cell ? fmt::format("{:.3g}", *cell) : "null";
    }
    text += "]";
  }
  return text + "]}";
}

std::string slowest_table(const Run& run) {
  constexpr std::size_t kSlowest = 10;
  const std::vector<RankSums>& ranks = run.ranks.ranks();
  std::vector<std::size_t> order(ranks.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t rank) { return ranks[rank].mean_own(); });
  std::vector<std::vector<std::string>> rows{{"rank", "host", "own work (s)", "data (s)", "forward (s)", "backward (s)",
                                              "waiting (s)", "CPU (s)", "loader busy (%)", "memory (MiB)"}};
  for (std::size_t i = 0; i < std::min(order.size(), kSlowest); ++i) {
    const RankSums& rank = ranks[order[i]];
    rows.push_back({std::to_string(order[i]), run.host_of(order[i]), short_number(rank.mean_own()),
                    short_number(rank.mean(&RankStep::data)), short_number(rank.mean(&RankStep::forward)),
                    short_number(rank.mean(&RankStep::backward)), short_number(rank.mean(&RankStep::wait)),
                    short_number(rank.mean(&RankStep::cpu)), short_number(100 * rank.mean(&RankStep::loader_use)),
                    short_number(rank.sum.peak_memory_mib)});
  }
  return html_table(ranks.size() > kSlowest
                        ? fmt::format("The {} slowest of {} ranks, means of a step", kSlowest, ranks.size())
                        : "Ranks, the slowest first, means of a step",
                    rows);
}

}  // namespace

std::string heat_map_html(const Run& run) {
  const RankGrid& grid = run.ranks;
  const double median = median_cell(grid);
  if (grid.columns().empty() || !(median > 0)) {
    return "";
  }
  const double width = (kMapWidth - kMapLeft - 10) / static_cast<double>(grid.columns().size());
  const double height = std::clamp(320.0 / static_cast<double>(grid.rows()), 5.0, 28.0);
  const double drawn = height * static_cast<double>(grid.rows());
  const auto slow = grid.straggler();
  const std::size_t marked = slow ? slow->rank / grid.ranks_of_row() : grid.rows();
  const std::string text =
      slow                      ? fmt::format("Rank {}{} is the straggler: {:.2f} times the median.", slow->rank,
                         run.host_of(slow->rank).empty() ? "" : " on " + run.host_of(slow->rank), slow->times())
      : grid.slowest()          ? "No rank is slower than the others again and again."
      : grid.has_equal_shares() ? "No rank is a tenth slower than the median."
                                : "Ranks have unequal shares of the work (--elastic-exact).";
  return fmt::format(
      "<figure class=\"chart\" id=\"ranks\"><figcaption>Ranks over time: own work of a step (data and forward), in "
      "medians</figcaption><p>{0}</p>\n<svg viewBox=\"0 0 {1} {2:.0f}\" role=\"img\" tabindex=\"0\" "
      "aria-labelledby=\"ranks-title\" aria-describedby=\"ranks-text\"><title id=\"ranks-title\">Ranks over "
      "time</title>"
      "<desc id=\"ranks-text\">{0} The table below has the slowest ranks.</desc><g class=\"grid\">{3}"
      "<text x=\"{4}\" y=\"{5:.1f}\">step {6}</text><text x=\"{7}\" y=\"{5:.1f}\" text-anchor=\"end\">step "
      "{8}</text></g>"
      "<g class=\"heat\" data-left=\"{4}\" data-width=\"{9:.3f}\" data-height=\"{10:.3f}\">{11}</g></svg>\n{12}"
      "<script type=\"application/json\">{13}</script></figure>\n{14}",
      escaped(text), kMapWidth, drawn + kMapBottom, row_labels(grid, height, marked), kMapLeft, drawn + 16,
      grid.columns().front().first_step, kMapWidth - 10, grid.columns().back().last_step, width, height,
      cells(grid, median, width, height), map_legend(), grid_json(grid, median), slowest_table(run));
}

}  // namespace rollcall::report
