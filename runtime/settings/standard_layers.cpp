#include "runtime/settings/standard_layers.h"

#include <unistd.h>

#include "runtime/contract/env_vars.h"
#include "runtime/settings/site_profile.h"

namespace rollcall::settings {
namespace {

/// Where the site profile is, if there is one.
Result<std::optional<SiteProfile>> find_site(const Environment& environment, const StandardLayers& layers) {
  constexpr const char* kSiteFile = "/etc/rollcall/site.toml";
  if (layers.site_file) {
    return std::optional(SiteProfile{"", *layers.site_file, "config= in plugstack.conf"});
  }
  if (const auto named = environment.get_non_empty(env::kSiteConfig)) {
    return std::optional(SiteProfile{"", *named, std::string(env::kSiteConfig)});
  }
  if (::access(kSiteFile, F_OK) == 0) {
    return std::optional(SiteProfile{"", kSiteFile, "its place"});
  }
  return recognise_site(installed_site_folder(), clues_of_this_machine(environment));
}

Result<void> apply_site_file(Settings& settings, const Environment& environment, const StandardLayers& layers) {
  Result<std::optional<SiteProfile>> site = find_site(environment, layers);
  if (!site) {
    return site.error();
  }
  return *site ? apply_site_profile(settings, **std::move(site), layers.section) : Result<void>();
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

Result<Settings> load_settings(Table table, const Environment& environment, const StandardLayers& layers) {
  Settings settings(table);
  for (const auto& apply : {apply_site_file, apply_user_file}) {
    const Result<void> applied = apply(settings, environment, layers);
    if (!applied) {
      return applied.error();
    }
  }
  const Result<void> applied = apply_environment(settings, environment, layers.other_tables);
  if (!applied) {
    return applied.error();
  }
  return settings;
}

}  // namespace rollcall::settings
