#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {
namespace {

Result<void> apply_entry(Settings& settings, std::string_view entry, const std::string& origin) {
  const std::size_t equals = entry.find('=');
  const std::string name(trim(entry.substr(0, equals)));
  const Setting* const setting = find_setting(settings.table(), name);
  if (equals == std::string_view::npos && setting != nullptr && setting->kind != Kind::Switch) {
    return fail(origin + "=" + name, "", "lacks a value", name + "=" + std::string(setting->argument));
  }
  std::string value(equals == std::string_view::npos ? "true" : trim(entry.substr(equals + 1)));
  if (setting != nullptr && setting->kind == Kind::List) {
    std::ranges::replace(value, '+', ',');
  }
  const Result<void> applied = settings.set(name, value, origin);
  if (!applied) {
    const Error& error = applied.error();
    return fail(origin + "=" + error.setting, error.value, error.reason, error.action, error.exit_code);
  }
  return {};
}

}  // namespace

Result<void> apply_key_values(Settings& settings, std::string_view text, const std::string& origin) {
  for (const std::string& entry : split(text, ',')) {
    if (trim(entry).empty()) {
      return fail(origin, std::string(text), "has an empty entry", "key=value,key=value");
    }
    Result<void> applied = apply_entry(settings, entry, origin);
    if (!applied) {
      return applied;
    }
  }
  return {};
}

}  // namespace rollcall::settings
