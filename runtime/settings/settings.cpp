#include "runtime/settings/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/base/text.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/settings/values.h"

namespace rollcall::settings {
namespace {

char plain(char c) { return c == '.' || c == '_' ? '-' : c; }

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return plain(x) == plain(y); });
}

std::string subject(std::string_view name, const std::string& origin) {
  const bool speaks_for_itself = origin == option_name(name) || origin == variable_name(name);
  return speaks_for_itself ? origin : std::string(name);
}

Error unknown_name(Table table, std::string_view name, const std::string& origin) {
  std::vector<std::string> known;
  for (const Setting& setting : table) {
    known.emplace_back(setting.name);
  }
  const bool is_launch = table.data() == launch_table().data();
  const std::string advice =
      nearest(name, known)
          .value_or(is_launch ? "rollcall help settings, which lists all" : "rollcall-train --help=all");
  return fail(subject(name, origin), "", "unknown setting", advice);
}

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

const Setting* find_setting(Table table, std::string_view name) {
  const auto found = std::ranges::find_if(table, [&](const Setting& row) { return same_name(row.name, name); });
  return found == table.end() ? nullptr : &*found;
}

Settings::Settings(Table table) : table_(table) {
  for (const Setting& setting : table) {
    values_.insert_or_assign(std::string(setting.name), SettingValue{std::string(setting.default_text), "default"});
  }
}

Result<void> Settings::set(std::string_view name, std::string_view text, const std::string& origin) {
  const Setting* const setting = find_setting(table_, name);
  if (setting == nullptr) {
    return unknown_name(table_, name, origin);
  }
  if (is_locked(setting->name) && site_ && origin != site_->file) {
    return fail(subject(setting->name, origin), std::string(text),
                "is locked by the profile of this site, " + site_->file,
                "leaving it out, or asking your administrator");
  }
  ASSIGN_OR_RETURN(std::string normal, normal_form(*setting, text, subject(setting->name, origin)));
  values_.insert_or_assign(std::string(setting->name), SettingValue{std::move(normal), origin});
  return {};
}

const SettingValue& Settings::value(std::string_view name) const {
  const auto found = values_.find(name);
  assert(found != values_.end());
  return found->second;
}

std::int64_t Settings::integer(std::string_view name) const {
  const auto number = parse_integer<std::int64_t>(text(name));
  assert(number);
  return number.value_or(0);
}

double Settings::number(std::string_view name) const {
  const auto number = parse_number(text(name));
  assert(number);
  return number.value_or(0);
}

bool Settings::on(std::string_view name) const { return text(name) == "true"; }

std::vector<std::string> Settings::list(std::string_view name) const { return split(text(name), ','); }

std::pair<std::uint16_t, std::uint16_t> Settings::port_range(std::string_view name) const {
  const auto ports = parse_port_range(text(name));
  assert(ports);
  return ports.value_or(std::pair<std::uint16_t, std::uint16_t>());
}

std::string variable_name(std::string_view setting_name) {
  std::string variable = "ROLLCALL_";
  for (const char c : setting_name) {
    const bool lower = c >= 'a' && c <= 'z';
    variable += c == '.' || c == '-' ? '_' : lower ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return variable;
}

std::string option_name(std::string_view setting_name) {
  std::string option = "--";
  std::ranges::transform(setting_name, std::back_inserter(option), plain);
  return option;
}

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
  const std::string doubt =
      settings.site_doubt().empty() ? "" : fmt::format("srun --ddp may take another: {}\n", settings.site_doubt());
  const std::string& reason = settings.skipped_sites();
  const std::string skipped = reason.empty() ? ""
                                             : fmt::format(
                                                   "installed site profiles are ignored: {}; try chown or "
                                                   "chmod go-w there, or creating /etc/rollcall/site.toml\n",
                                                   reason);
  return (site ? fmt::format("site profile: {}, recognised by {}, {}\n", site->name, site->recognised_by, site->file)
               : "site profile: none\n") +
         skipped + doubt;
}

}  // namespace rollcall::settings
