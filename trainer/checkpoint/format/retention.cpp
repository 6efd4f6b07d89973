#include "trainer/checkpoint/format/retention.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>

#include "runtime/base/untrusted_json.h"

namespace rollcall::checkpoint::format {
namespace {

/// Returns whether checkpoint `index` (oldest first) is the first one in its range of `every` steps.
bool first_of_its_stretch(const std::vector<std::int64_t>& steps, std::size_t index, std::int64_t every) {
  return index == 0 || steps[index - 1] / every != steps[index] / every;
}

}  // namespace

bool note_validation(std::vector<Best>& best, const Best& validation, std::size_t keep) {
  std::erase_if(best, [&](const Best& other) { return other.step == validation.step; });  // validated again
  const auto worse = [&](const Best& other) { return other.metric < validation.metric; };
  const auto place = std::find_if(best.begin(), best.end(), worse);
  const bool stays = static_cast<std::size_t>(place - best.begin()) < keep;
  best.insert(place, validation);
  best.resize(std::min(best.size(), keep));
  return stays;
}

std::string best_to_json(const std::vector<Best>& best) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Best& one : best) {
    json.push_back({{"step", one.step}, {"metric", one.metric}});
  }
  return json.dump();
}

std::vector<Best> best_from_json(const std::string& text) {
  std::vector<Best> best;
  const nlohmann::json json = parse_untrusted(text).value_or(nlohmann::json());
  if (!json.is_array()) {
    return best;
  }
  for (const auto& one : json) {
    if (one.is_object() && one.contains("step") && one["step"].is_number_integer() && one.contains("metric") &&
        one["metric"].is_number()) {
      best.push_back({one["step"].get<std::int64_t>(), one["metric"].get<double>()});
    }
  }
  return best;
}

std::vector<std::int64_t> best_of(const std::vector<std::int64_t>& steps, const Retention& retention) {
  std::vector<std::int64_t> best;
  for (const std::int64_t step : retention.best_steps) {
    const bool there = std::find(steps.begin(), steps.end(), step) != steps.end();
    if (there && best.size() < retention.keep_best && std::find(best.begin(), best.end(), step) == best.end()) {
      best.push_back(step);
    }
  }
  return best;
}

std::vector<std::int64_t> superfluous_steps(std::vector<std::int64_t> steps, const Retention& retention) {
  std::sort(steps.begin(), steps.end());
  const auto last = static_cast<std::size_t>(std::max<std::int64_t>(retention.keep_last, 1));
  const std::vector<std::int64_t> best = best_of(steps, retention);
  std::vector<std::int64_t> superfluous;
  for (std::size_t i = 0; i + last < steps.size(); ++i) {
    const bool is_best = std::find(best.begin(), best.end(), steps[i]) != best.end();
    if (!is_best && !(retention.keep_every > 0 && first_of_its_stretch(steps, i, retention.keep_every))) {
      superfluous.push_back(steps[i]);
    }
  }
  return superfluous;
}

}  // namespace rollcall::checkpoint::format
