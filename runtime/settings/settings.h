#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/setting.h"

namespace rollcall::settings {

using Table = std::span<const Setting>;

/// A value and where it came from, as `--print-config` shows it.
struct SettingValue {
  std::string text;
  std::string origin;  ///< "default", "/etc/rollcall/site.toml", "ROLLCALL_PORT_RANGE", "--port-range", "--ddp"
};

/// The values of every setting of one table. Starts with the defaults; each layer that is applied overrides the ones
/// before it: default < site profile < user file < ROLLCALL_* < `--ddp=` or command line. All checks happen while a layer is
/// applied: an unknown name is refused with the nearest known one, a bad value with what is accepted.
///
/// The typed getters are for names of the table and its kinds only; anything else is a bug (assertion).
/// A plain value; concurrent reads are safe.
class Settings {
 public:
  explicit Settings(Table table);

  /// Sets one value after checking it. Error: unknown name, bad value (setting = origin-specific name of the setting).
  [[nodiscard]] Result<void> set(std::string_view name, std::string_view text, const std::string& origin);

  [[nodiscard]] const SettingValue& value(std::string_view name) const;
  [[nodiscard]] bool is_default(std::string_view name) const { return value(name).origin == "default"; }

  [[nodiscard]] const std::string& text(std::string_view name) const { return value(name).text; }
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] bool on(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;

  [[nodiscard]] Table table() const { return table_; }

 private:
  Table table_;
  std::map<std::string, SettingValue, std::less<>> values_;
};

/// The layers. Each returns the first error; what was applied before it stays applied.

/// A TOML file (v1.0). `required` false: a missing file is no error. Keys of tables that another program of the project
/// owns are not errors when listed in `foreign_tables` ("trainer"). Never called as root with a path that a user named.
[[nodiscard]] Result<void> apply_toml_file(Settings& settings, const std::string& path, bool required);
/// ROLLCALL_* variables. Unknown ROLLCALL_ names are refused, except those of contract/env_vars.h and of `other_tables`.
[[nodiscard]] Result<void> apply_environment(Settings& settings, const Environment& environment,
                                             std::span<const Table> other_tables = {});
/// "key=value,key=value" as in `--ddp=...`. A comma inside a list value is written as '+'. "" applies nothing.
[[nodiscard]] Result<void> apply_key_values(Settings& settings, std::string_view text, const std::string& origin);

/// `--print-config`: one line a setting: name, value, origin. With `json`: an object name -> {value, origin}.
[[nodiscard]] std::string print_config(const Settings& settings, bool json);

/// ROLLCALL_PORT_RANGE for "port.range"; "train-num-workers" -> ROLLCALL_TRAIN_NUM_WORKERS.
[[nodiscard]] std::string variable_name(std::string_view setting_name);
/// --port-range for "port.range".
[[nodiscard]] std::string option_name(std::string_view setting_name);

}  // namespace rollcall::settings
