#include "trainer/checkpoint/format/best.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rollcall::checkpoint::format {

bool note_validation(std::vector<Best>& best, const Best& validation, std::size_t keep) {
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
  const auto json = nlohmann::json::parse(text, nullptr, false);
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

}  // namespace rollcall::checkpoint::format
