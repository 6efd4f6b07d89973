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

namespace rollcall::settings {

/// The values that a setting accepts. They are checked when they are set, so readers never see a bad one.
enum class Kind {
  Text,       ///< any text
  Integer,    ///< a decimal integer within [minimum, maximum]
  Number,     ///< a finite decimal number within [minimum, maximum]
  Switch,     ///< true|false, also on|off, yes|no, 1|0; an option without a value means true
  Choice,     ///< one of its words()
  Path,       ///< a path; may hold ${SCRATCH}-like variables of a fixed list, see values.h
  List,       ///< words separated by commas, at least one
  PortRange,  ///< "first-last", 1 <= first <= last <= 65535
};

/// One row of a settings table. The option, the variable, the TOML key, `--help`, the check of the value and the row in
/// docs/reference/settings.md are made from it. The name "port.range" is option `--port-range`, variable
/// ROLLCALL_PORT_RANGE, TOML `[port] range = ...` and `--ddp=port.range=...`. The name "epochs" (no dot) is `--epochs`,
/// ROLLCALL_EPOCHS and `epochs = ...`. '.', '-' and '_' are the same in a given name: "port-range" works in TOML too.
struct Setting {
  std::string_view name;
  Kind kind = Kind::Text;
  std::string_view default_text;  ///< a value that `kind` accepts (a test checks it)
  std::string_view argument;      ///< shown in --help: "N", "DIR", "NAME[,NAME...]"
  std::string_view help;          ///< sentences, the last without its full stop, the first good alone; with the unit
  std::string_view group;         ///< heading in --help and docs
  std::string_view choices = "";  ///< Choice: "sgd|adamw", if `argument` is different. Other kinds: words that are
                                  ///< accepted as well, such as "auto"
  double minimum = -1e300;        ///< Integer, Number: inclusive
  double maximum = 1e300;         ///< Integer, Number: inclusive
  bool is_common = false;         ///< `--help` shows it without being asked for more
  bool may_be_file = false;       ///< Choice: a value with a slash or a dot is a path, as of Path

  /// Returns the fixed words that the setting accepts, separated by '|'.
  [[nodiscard]] constexpr std::string_view words() const {
    return kind == Kind::Choice && choices.empty() ? argument : choices;
  }
  /// The same row, marked as one of the options that most users need.
  [[nodiscard]] constexpr Setting common() const {
    Setting marked = *this;
    marked.is_common = true;
    return marked;
  }
  /// The same row, which also accepts a path.
  [[nodiscard]] constexpr Setting or_file() const {
    Setting marked = *this;
    marked.may_be_file = true;
    return marked;
  }
};

using Table = std::span<const Setting>;

/// A value and its origin, as `--print-config` shows them.
struct SettingValue {
  std::string text;    ///< the normal form: a switch is "true" or "false", a list has no blanks
  std::string origin;  ///< "default", "/etc/rollcall/site.toml", "ROLLCALL_PORT_RANGE", "--port-range", "--ddp"
};

/// The site profile that is in use, and how it was found.
struct SiteProfile {
  std::string name;           ///< the name in the profile's [site] section, or the name of the file
  std::string file;           ///< path of the profile
  std::string recognised_by;  ///< "config= in plugstack.conf", "SYSTEMNAME=jedi", "host name jwb0001.juwels"
};

/// The values of every setting of one table. It starts with the defaults. Each layer that is applied overrides the ones
/// before it: default < site profile < user file < ROLLCALL_* < `--ddp=` or command line. An unknown name is refused
/// with the nearest known one, a bad value with what is accepted.
///
/// A getter asserts that the name is in the table and that the value has its type.
/// Concurrent reads are safe. The table must outlive the object (tables are static).
class Settings {
 public:
  explicit Settings(Table table);

  /// Checks and sets one value. Errors: the name is unknown; the value is not accepted; the site profile locks the
  /// setting, and `origin` is not that profile. The error names `origin` if that is the option or variable of the
  /// setting, otherwise the setting.
  [[nodiscard]] Result<void> set(std::string_view name, std::string_view text, const std::string& origin);

  /// Sets the site profile. Its file may then be applied, and may lock settings that only it can set.
  void set_site(SiteProfile site) { site_ = std::move(site); }
  [[nodiscard]] const std::optional<SiteProfile>& site() const { return site_; }
  /// Sets the reason why `srun --ddp` may use another profile than this one; "" if there is none.
  void set_site_doubt(std::string reason) { site_doubt_ = std::move(reason); }
  [[nodiscard]] const std::string& site_doubt() const { return site_doubt_; }
  /// Sets the reason why installed profiles were skipped: "others may write to /opt/project"; "" if they were not.
  void set_skipped_sites(std::string reason) { skipped_sites_ = std::move(reason); }
  [[nodiscard]] const std::string& skipped_sites() const { return skipped_sites_; }
  /// Locks the setting. `name` must be in the table.
  void lock(std::string_view name) { locked_.emplace(name); }
  [[nodiscard]] bool is_locked(std::string_view name) const { return locked_.contains(name); }

  [[nodiscard]] const SettingValue& value(std::string_view name) const;
  [[nodiscard]] bool is_default(std::string_view name) const { return value(name).origin == "default"; }

  [[nodiscard]] const std::string& text(std::string_view name) const { return value(name).text; }
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] bool on(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;
  /// Returns the first and last port, 1 <= first <= last.
  [[nodiscard]] std::pair<std::uint16_t, std::uint16_t> port_range(std::string_view name) const;

  [[nodiscard]] Table table() const { return table_; }

 private:
  Table table_;
  std::map<std::string, SettingValue, std::less<>> values_;
  std::set<std::string, std::less<>> locked_;
  std::optional<SiteProfile> site_;
  std::string site_doubt_;
  std::string skipped_sites_;
};

/// Returns the row of that name, or null. '.', '-' and '_' are the same.
[[nodiscard]] const Setting* find_setting(Table table, std::string_view name);

/// Returns the text of `--print-config`: a line per setting with name, value and origin. With `json`: an object name ->
/// {value, origin}, with "locked" for a locked setting, and with "site" if a profile is in use.
[[nodiscard]] std::string print_config(const Settings& settings, bool json);

/// Returns "site profile: NAME, recognised by ..., FILE" or "site profile: none", with a line feed, and further lines
/// for profiles that were skipped and for Settings::site_doubt().
[[nodiscard]] std::string site_text(const Settings& settings);

/// Returns the variable of a setting: ROLLCALL_PORT_RANGE for "port.range".
[[nodiscard]] std::string variable_name(std::string_view setting_name);
/// Returns the option of a setting: --port-range for "port.range".
[[nodiscard]] std::string option_name(std::string_view setting_name);

/// Returns a section of docs/reference/settings.md: a heading of level 2 and a Markdown table for each group of the
/// settings. It ends with a line feed. scripts/update-pages puts the sections together, and a test compares them.
[[nodiscard]] std::string settings_markdown(std::string_view title, Table table);

/// Returns the begin of that page: the heading, how settings are given, which value is used, and the launch settings.
[[nodiscard]] std::string launch_settings_markdown();

/// Returns docs/reference/environment.md, made from contract/env_table.h. A test compares them.
[[nodiscard]] std::string environment_markdown();

}  // namespace rollcall::settings
