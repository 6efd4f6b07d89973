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

/// What texts a setting accepts. Every kind is checked where the value comes in, so that readers never see a bad one.
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

/// One row of a settings table. From it come the option, the variable, the TOML key, `--help`, the check of the value
/// and the row in docs/reference/settings.md. `name` "port.range" is: option `--port-range`, variable
/// ROLLCALL_PORT_RANGE, TOML
/// `[port] range = ...`, and `--ddp=port.range=...`; "epochs" (no dot) is `--epochs`, ROLLCALL_EPOCHS, `epochs = ...`.
/// Users mix up '.', '-' and '_', so they count as the same wherever a name comes in: "port-range" works in TOML too.
struct Setting {
  std::string_view name;
  Kind kind = Kind::Text;
  std::string_view default_text;  ///< in the notation of `kind`; must pass its own check (a test proves it)
  std::string_view argument;      ///< shown in --help: "N", "DIR", "NAME[,NAME...]"
  std::string_view help;          ///< sentences, the last without its full stop, the first good alone; with the unit
  std::string_view group;         ///< heading in --help and docs
  std::string_view choices = "";  ///< Kind::Choice: "sgd|adamw", where `argument` says something else. Others: further
                                  ///< fixed words that are accepted too, as "auto"
  double minimum = -1e300;        ///< Integer, Number: inclusive
  double maximum = 1e300;         ///< Integer, Number: inclusive
  bool is_common = false;         ///< `--help` shows it without being asked for more

  /// The fixed words that it accepts, with '|' between them.
  [[nodiscard]] constexpr std::string_view words() const {
    return kind == Kind::Choice && choices.empty() ? argument : choices;
  }
  /// The same row, marked as one of the options that most users need.
  [[nodiscard]] constexpr Setting common() const {
    Setting marked = *this;
    marked.is_common = true;
    return marked;
  }
};

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
  /// Notes why the profile in force may not be the one that `srun --ddp` would take; "" for no doubt.
  void doubt_site(std::string reason) { site_doubt_ = std::move(reason); }
  [[nodiscard]] const std::string& site_doubt() const { return site_doubt_; }
  /// Notes why the installed profiles were not looked at: "others may write to /opt/project"; "" where they were.
  void pass_over_installed_sites(std::string reason) { sites_passed_over_ = std::move(reason); }
  [[nodiscard]] const std::string& sites_passed_over() const { return sites_passed_over_; }
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
  std::string site_doubt_;
  std::string sites_passed_over_;
};

/// The row of that name, '.', '-' and '_' counting as the same; null where there is none.
[[nodiscard]] const Setting* find_setting(Table table, std::string_view name);

/// `--print-config`: one line a setting: name, value, origin. With `json`: an object name -> {value, origin}, with
/// "locked" where a setting is, and "site" where a profile is in force.
[[nodiscard]] std::string print_config(const Settings& settings, bool json);

/// "site profile: NAME, recognised by ..., FILE" and a line feed, for people; "site profile: none" where none is in
/// force. A second line holds the doubt about it, if any.
[[nodiscard]] std::string site_text(const Settings& settings);

/// ROLLCALL_PORT_RANGE for "port.range"; "train-num-workers" -> ROLLCALL_TRAIN_NUM_WORKERS.
[[nodiscard]] std::string variable_name(std::string_view setting_name);
/// --port-range for "port.range".
[[nodiscard]] std::string option_name(std::string_view setting_name);

/// A section of docs/reference/settings.md, generated from a table: a heading of level 2, below it a Markdown table a
/// group. Ends with a newline. docs/reference/settings.md is what `rollcall --print-settings-markdown` prints, followed
/// by the same of the other programs; a test compares them.
[[nodiscard]] std::string settings_markdown(std::string_view title, Table table);

/// The settings of launching as a whole page: the heading, how settings are given and which one wins, the launch table.
[[nodiscard]] std::string launch_settings_markdown();

/// docs/reference/environment.md, generated from contract/env_table.h: what `rollcall --print-environment-markdown`
/// prints; a test compares them.
[[nodiscard]] std::string environment_markdown();

}  // namespace rollcall::settings
