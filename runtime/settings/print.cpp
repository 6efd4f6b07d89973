#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/settings/settings.h"

namespace rollcall::settings {
namespace {

std::string shown(const std::string& text) { return text.empty() ? "(empty)" : text; }

std::string print_json(const Settings& settings) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const Setting& setting : settings.table()) {
    const SettingValue& value = settings.value(setting.name);
    nlohmann::ordered_json& entry = all[std::string(setting.name)];
    entry = {{"value", value.text}, {"origin", value.origin}};
    if (settings.is_locked(setting.name)) {
      entry["locked"] = true;
    }
  }
  if (const auto& site = settings.site()) {
    all["site"] = {{"name", site->name}, {"file", site->file}, {"recognised_by", site->recognised_by}};
  }
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string print_config(const Settings& settings, bool json) {
  if (json) {
    return print_json(settings);
  }
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  for (const Setting& setting : settings.table()) {
    name_width = std::max(name_width, setting.name.size());
    value_width = std::max(value_width, shown(settings.text(setting.name)).size());
  }
  std::string lines;
  for (const Setting& setting : settings.table()) {
    const SettingValue& value = settings.value(setting.name);
    fmt::format_to(std::back_inserter(lines), "{:<{}}  {:<{}}  {}{}\n", setting.name, name_width, shown(value.text),
                   value_width, value.origin, settings.is_locked(setting.name) ? " (locked)" : "");
  }
  return lines;
}

std::string site_text(const Settings& settings) {
  const std::optional<SiteProfile>& site = settings.site();
  return site ? fmt::format("site profile: {}, recognised by {}, {}\n", site->name, site->recognised_by, site->file)
              : "site profile: none\n";
}

}  // namespace rollcall::settings
