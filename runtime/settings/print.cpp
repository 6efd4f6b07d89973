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
    all[std::string(setting.name)] = {{"value", value.text}, {"origin", value.origin}};
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
    fmt::format_to(std::back_inserter(lines), "{:<{}}  {:<{}}  {}\n", setting.name, name_width, shown(value.text),
                   value_width, value.origin);
  }
  return lines;
}

}  // namespace rollcall::settings
