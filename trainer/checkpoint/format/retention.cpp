#include "trainer/checkpoint/format/retention.h"

#include <algorithm>
#include <cstddef>

namespace rollcall::checkpoint::format {
namespace {

/// Whether no checkpoint before number `index` (oldest first) lies in the same stretch of `every` steps.
bool first_of_its_stretch(const std::vector<std::int64_t>& steps, std::size_t index, std::int64_t every) {
  return index == 0 || steps[index - 1] / every != steps[index] / every;
}

}  // namespace

std::vector<std::int64_t> superfluous_steps(std::vector<std::int64_t> steps, const Retention& retention) {
  std::sort(steps.begin(), steps.end());
  const auto last = static_cast<std::size_t>(std::max<std::int64_t>(retention.keep_last, 1));
  std::vector<std::int64_t> superfluous;
  for (std::size_t i = 0; i + last < steps.size(); ++i) {
    const auto& best = retention.best_steps;
    const bool is_best = std::find(best.begin(), best.end(), steps[i]) != best.end();
    if (!is_best && !(retention.keep_every > 0 && first_of_its_stretch(steps, i, retention.keep_every))) {
      superfluous.push_back(steps[i]);
    }
  }
  return superfluous;
}

}  // namespace rollcall::checkpoint::format
