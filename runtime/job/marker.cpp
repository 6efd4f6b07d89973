#include "runtime/job/marker.h"

#include <fmt/format.h>

#include <charconv>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::job {

std::string step_name(const JobFacts& facts) {
  if (facts.job_id) {
    return fmt::format("{}.{}", *facts.job_id, facts.step_id.value_or(0));
  }
  if (facts.enclosing_job) {
    return fmt::format("job.{}", *facts.enclosing_job);
  }
  const bool has_run = facts.port_salt != 0 && facts.source != "single";
  return has_run ? fmt::format("run.{:08x}", facts.port_salt) : "none";
}

std::uint32_t fnv1a(std::string_view text) {
  std::uint32_t hash = 0x811c9dc5U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
  }
  return hash;
}

std::string to_text(const Marker& marker) {
  std::string text;
  for (const auto& [name, hash] : marker) {
    text += fmt::format("{}{}:{:08x}", text.empty() ? "" : ",", name, hash);
  }
  return text;
}

Marker parse_marker(std::string_view text) {
  constexpr std::size_t kDigits = 8;
  Marker marker;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.rfind(':');
    if (colon == std::string::npos || colon == 0 || part.size() - colon - 1 != kDigits) {
      continue;
    }
    std::uint32_t hash = 0;
    const char* const end = part.data() + part.size();
    const auto [next, error] = std::from_chars(part.data() + colon + 1, end, hash, 16);
    if (error == std::errc{} && next == end) {
      marker.insert_or_assign(part.substr(0, colon), hash);
    }
  }
  return marker;
}

Marker marker_of(const Environment& environment) { return parse_marker(environment.get(env::kMarker).value_or("")); }

bool is_marked(const Marker& marker, std::string_view name, std::string_view value) {
  const auto found = marker.find(name);
  // The placeholder is never the user's, even where --export=LIST has the variable but not the marker.
  return value == env::kPluginMissing || (found != marker.end() && found->second == fnv1a(value));
}

std::optional<std::string> set_by_user(const Environment& environment, std::string_view name) {
  std::optional<std::string> value = environment.get_non_empty(name);
  return value && !is_marked(marker_of(environment), name, *value) ? value : std::nullopt;
}

std::vector<std::string> marked_values(const Environment& environment) {
  std::vector<std::string> names;
  const Marker marker = marker_of(environment);
  for (const auto& [name, value] : environment.variables()) {
    if (is_marked(marker, name, value)) {
      names.push_back(name);
    }
  }
  for (const std::string_view ours : {env::kStep, env::kMarker}) {
    if (environment.get(ours)) {
      names.emplace_back(ours);
    }
  }
  return names;
}

}  // namespace rollcall::job
