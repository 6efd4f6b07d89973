#include "runtime/settings/layers.h"

#include <algorithm>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_table.h"
#include "runtime/contract/env_vars.h"
#include "runtime/settings/settings.h"
#include "runtime/settings/site_profile.h"

namespace rollcall::settings {
namespace {

constexpr std::string_view kPrefix = "ROLLCALL_";

const Setting* setting_of_variable(Table table, std::string_view variable) {
  const auto found =
      std::ranges::find_if(table, [&](const Setting& setting) { return variable_name(setting.name) == variable; });
  return found == table.end() ? nullptr : &*found;
}

/// Finds the variable that was probably meant. The common prefix is not compared, since it would make any two similar.
std::optional<std::string> nearest_variable(const std::vector<Table>& tables, std::string_view variable) {
  std::vector<std::string> known;
  for (const Table table : tables) {
    for (const Setting& setting : table) {
      known.push_back(variable_name(setting.name).substr(kPrefix.size()));
    }
  }
  const auto meant = nearest(variable.substr(kPrefix.size()), known);
  return meant ? std::optional(std::string(kPrefix) + *meant) : std::nullopt;
}

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
    return fail(origin + "=" + error.setting, error.value, error.reason, error.action, error.kind);
  }
  return {};
}

/// A site profile, and who may own it.
struct FoundSite {
  SiteProfile profile;
  TrustedOwners owners = {.anybody = true};
};

/// Finds the site profile, if there is one. Stores in `settings` why installed profiles were skipped.
Result<std::optional<FoundSite>> find_site(Settings& settings, const Environment& environment,
                                           const StandardLayers& layers) {
  constexpr const char* kSiteFile = "/etc/rollcall/site.toml";
  const PluginProfile& site = layers.site;
  if (site.refusal) {
    return *site.refusal;
  }
  if (site.file) {
    return std::optional(
        FoundSite{{"", *site.file, "config= in plugstack.conf"}, with_owner_of(program_file(), site.owners)});
  }
  if (const auto named = environment.get_non_empty(env::kSiteConfig)) {
    return std::optional(FoundSite{{"", *named, std::string(env::kSiteConfig)}});
  }
  if (may_exist(kSiteFile)) {
    return std::optional(FoundSite{{"", kSiteFile, "its place"}, with_owner_of(program_file(), site.owners)});
  }
  const FoundInstalled installed = installed_site_folder();  // which is judged there
  settings.set_skipped_sites(installed.passed_over);
  ASSIGN_OR_RETURN(std::optional<SiteProfile> known,
                   recognise_site(installed.file, clues_of_this_machine(environment)));
  return known ? std::optional(FoundSite{*std::move(known)}) : std::nullopt;
}

Result<void> apply_site_file(Settings& settings, const Environment& environment, const StandardLayers& layers) {
  ASSIGN_OR_RETURN(const std::optional<FoundSite> found, find_site(settings, environment, layers));
  const std::optional<FoundSite>& site = found;
  return site ? apply_site_profile(settings, site->profile, layers.section, site->owners) : Result<void>();
}

Result<void> apply_user_file(Settings& settings, const Environment& environment, const StandardLayers& layers) {
  std::optional<std::string> folder = environment.get_non_empty("XDG_CONFIG_HOME");
  if (!folder) {
    const std::optional<std::string> home = environment.get_non_empty("HOME");
    if (!home) {
      return {};
    }
    folder = *home + "/.config";
  }
  return apply_toml_file(settings, *folder + "/rollcall/config.toml", false, layers.section);
}

}  // namespace

Result<void> apply_environment(Settings& settings, const Environment& environment,
                               std::span<const Table> other_tables) {
  std::vector<Table> tables(other_tables.begin(), other_tables.end());
  tables.push_back(settings.table());
  for (const auto& [name, value] : environment.variables()) {
    if (!name.starts_with(kPrefix) || env::find_variable(name) != nullptr) {
      continue;
    }
    if (const Setting* const own = setting_of_variable(settings.table(), name)) {
      RETURN_IF_ERROR(settings.set(own->name, value, name));
      continue;
    }
    const bool foreign = std::ranges::any_of(
        other_tables, [&variable = name](Table table) { return setting_of_variable(table, variable) != nullptr; });
    const std::optional<std::string> meant = nearest_variable(tables, name);
    if (!foreign && (meant || !other_tables.empty())) {
      return fail(name, "", "unknown setting", meant ? *meant : "unsetting it");  // its value may be a secret
    }
  }
  return {};
}

Result<void> apply_key_values(Settings& settings, std::string_view text, const std::string& origin) {
  for (const std::string& entry : split(text, ',')) {
    if (trim(entry).empty()) {
      return fail(origin, std::string(text), "has an empty entry", origin + "=key=value,key=value");
    }
    RETURN_IF_ERROR(apply_entry(settings, entry, origin));
  }
  return {};
}

PluginProfile plugin_profile(const std::string& config, const std::string& config_owner) {
  PluginProfile profile;
  profile.file = config.empty() ? std::nullopt : std::optional(config);
  const auto user = parse_integer<uid_t>(config_owner);
  profile.owners.anybody = config_owner == "any";
  if (user) {
    profile.owners.users.push_back(*user);
  } else if (!config_owner.empty() && !profile.owners.anybody) {
    profile.refusal = fail("plugstack.conf: config_owner", config_owner, "is neither any nor a user ID",
                           "leaving it out", ErrorKind::Configuration);
  }
  return profile;
}

Result<void> check_plugin(const std::string& path, const TrustedOwners& owners) {
  const std::optional<TrustProblem> found = trust_problem_on_path(path, with_owner_of(path, owners));
  return found ? Result<void>(refuse_untrusted(path, *found)) : Result<void>();
}

Error refuse_untrusted(const std::string& subject, const TrustProblem& trust_problem) {
  return fail(subject, "", trust_problem.reason + ", so others could run code as any user",
              trust_problem.remedy + ", or setting config_owner= in plugstack.conf", ErrorKind::Configuration);
}

Result<Settings> load_settings(Table table, const Environment& environment, const StandardLayers& layers) {
  Settings settings(table);
  for (const auto& apply : {apply_site_file, apply_user_file}) {
    const Result<void> applied = apply(settings, environment, layers);
    if (!applied) {
      Error error = applied.error();
      error.of_this_node = true;  // each node has its files
      return error;
    }
  }
  RETURN_IF_ERROR(apply_environment(settings, environment, layers.other_tables));
  return settings;
}

}  // namespace rollcall::settings
