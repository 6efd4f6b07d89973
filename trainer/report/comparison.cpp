#include "trainer/report/comparison.h"

#include <fmt/format.h>
#include <algorithm>
#include <numeric>
#include <set>

namespace rollcall::report {

std::vector<std::pair<std::string, std::vector<std::string>>> differing_settings(const std::vector<Run>& runs) {
  std::set<std::string> names;
  for (const Run& run : runs) {
    for (const auto& [name, value] : run.settings) {
      names.insert(name);
    }
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> differing;
  for (const std::string& name : names) {
    std::vector<std::string> values;
    for (const Run& run : runs) {
      const auto found = run.settings.find(name);
      values.push_back(found == run.settings.end() ? "not recorded" : found->second.value);
    }
    if (std::ranges::any_of(values, [&](const std::string& value) { return value != values.front(); })) {
      differing.emplace_back(name, std::move(values));
    }
  }
  return differing;
}

std::vector<std::vector<std::string>> comparison(const std::vector<Run>& runs) {
  const auto differing = differing_settings(runs);
  std::vector<std::vector<std::string>> rows{{"run"}};
  for (const auto& [name, values] : differing) {
    rows.front().push_back(name);
  }
  const auto is_top1 = [](const Run& run) { return run.valid_precision.empty(); };
  const char* const best = std::ranges::all_of(runs, is_top1)    ? "best top-1"
                           : std::ranges::none_of(runs, is_top1) ? "best mAP"
                                                                 : "best top-1 or mAP";
  rows.front().insert(rows.front().end(), {"step", best, "loss"});
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return runs[i].best_quality; });
  for (const std::size_t i : order) {
    const Run& run = runs[i];
    std::vector<std::string> row{run.name};
    for (const auto& [name, values] : differing) {
      row.push_back(values[i].empty() ? "-" : values[i]);
    }
    row.push_back(std::to_string(run.step));
    row.push_back(run.best_quality >= 0 ? fmt::format("{:.2f} %", 100 * run.best_quality) : "-");
    row.push_back(run.loss.empty() ? "-" : fmt::format("{:.4f}", run.loss.points().back().mean()));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace rollcall::report
