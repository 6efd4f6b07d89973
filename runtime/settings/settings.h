#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/setting.h"

namespace rollcall::settings {

using Table = std::span<const Setting>;

/// A value and where it came from, as `--print-config` shows it.
struct SettingValue {
  std::string text;    ///< in normal form: a switch is "true" or "false", a list has no blanks
  std::string origin;  ///< "default", "/etc/rollcall/site.toml", "ROLLCALL_PORT_RANGE", "--port-range", "--ddp"
};

/// The site profile whose values are in force, and how it was found.
struct SiteProfile {
  std::string name;           ///< of the profile's [site] section; the file's name without one
  std::string file;           ///< its path
  std::string recognised_by;  ///< "config= in plugstack.conf", "SYSTEMNAME=jedi", "host name jwb0001.juwels"
};

/// The values of every setting of one table. Starts with the defaults; each layer that is applied overrides the ones
/// before it: default < site profile < user file < ROLLCALL_* < `--ddp=` or command line. All checks happen while a
/// layer is applied: an unknown name is refused with the nearest known one, a bad value with what is accepted.
///
/// The typed getters are for names of the table and its kinds only; anything else is a bug (assertion).
/// A plain value; concurrent reads are safe. The table must outlive it (tables are static).
class Settings {
 public:
  explicit Settings(Table table);

  /// Sets one value after checking it. Error: unknown name, bad value; its `setting` is `origin` where that is the
  /// setting's own option or variable, otherwise the setting's name.
  /// Error as well: the site's profile locks the setting, and `origin` is not that file.
  [[nodiscard]] Result<void> set(std::string_view name, std::string_view text, const std::string& origin);

  /// Notes the site profile; its file may be applied then, and may lock settings: only it can set those.
  void set_site(SiteProfile site) { site_ = std::move(site); }
  [[nodiscard]] const std::optional<SiteProfile>& site() const { return site_; }
  /// `name` must be in the table.
  void lock(std::string_view name) { locked_.emplace(name); }
  [[nodiscard]] bool is_locked(std::string_view name) const { return locked_.contains(name); }

  [[nodiscard]] const SettingValue& value(std::string_view name) const;
  [[nodiscard]] bool is_default(std::string_view name) const { return value(name).origin == "default"; }

  [[nodiscard]] const std::string& text(std::string_view name) const { return value(name).text; }
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] bool on(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;
  /// First and last port, 1 <= first <= last.
  [[nodiscard]] std::pair<std::uint16_t, std::uint16_t> port_range(std::string_view name) const;

  [[nodiscard]] Table table() const { return table_; }

 private:
  Table table_;
  std::map<std::string, SettingValue, std::less<>> values_;
  std::set<std::string, std::less<>> locked_;
  std::optional<SiteProfile> site_;
};

/// The row of that name, '.', '-' and '_' counting as the same; null where there is none.
[[nodiscard]] const Setting* find_setting(Table table, std::string_view name);

/// The layers. Each returns the first error; what was applied before it stays applied.

/// The tables of a TOML file that belong to one program: `[trainer]`.
inline constexpr std::string_view kTrainerSection = "trainer";

/// A TOML file (v1.0). `required` false: a missing file is no error. With a `section` only that table of the file is
/// read; without one everything but the sections of the programs. Errors: NoInput where the file cannot be read,
/// otherwise Configuration, naming file and line. Never call it as root with a path that a user named.
[[nodiscard]] Result<void> apply_toml_file(Settings& settings, const std::string& path, bool required,
                                           std::string_view section = {});

/// ROLLCALL_* variables; those of contract/env_vars.h are no settings and passed over. `other_tables`: the tables of
/// the program's other Settings, whose variables are passed over too. Where they are given, any other ROLLCALL_ name is
/// refused. Where not, the program cannot tell a setting of another program from a typing error, and refuses only what
/// comes near to a name of its own.
[[nodiscard]] Result<void> apply_environment(Settings& settings, const Environment& environment,
                                             std::span<const Table> other_tables = {});

/// "key=value,key=value" as in `--ddp=...`. A comma inside a list value is written as '+'; a switch alone means true.
/// "" applies nothing. `origin` is the option that held the text.
[[nodiscard]] Result<void> apply_key_values(Settings& settings, std::string_view text, const std::string& origin);

/// `--print-config`: one line a setting: name, value, origin. With `json`: an object name -> {value, origin}, with
/// "locked" where a setting is, and "site" where a profile is in force.
[[nodiscard]] std::string print_config(const Settings& settings, bool json);

/// "site profile: NAME, recognised by ..., FILE" and a line feed, for people; "site profile: none" where none is in
/// force.
[[nodiscard]] std::string site_text(const Settings& settings);

/// ROLLCALL_PORT_RANGE for "port.range"; "train-num-workers" -> ROLLCALL_TRAIN_NUM_WORKERS.
[[nodiscard]] std::string variable_name(std::string_view setting_name);
/// --port-range for "port.range".
[[nodiscard]] std::string option_name(std::string_view setting_name);

}  // namespace rollcall::settings
