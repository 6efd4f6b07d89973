#include "runtime/settings/standard_layers.h"

#include "runtime/contract/env_vars.h"

namespace rollcall::settings {
namespace {

constexpr const char* kSiteFile = "/etc/rollcall/site.toml";

Result<void> apply_site_file(Settings& settings, const Environment& environment, const StandardLayers& layers) {
  if (layers.site_file) {
    return apply_toml_file(settings, *layers.site_file, true, layers.section);
  }
  if (const auto named = environment.get_non_empty(env::kSiteConfig)) {
    return apply_toml_file(settings, *named, true, layers.section);
  }
  return apply_toml_file(settings, kSiteFile, false, layers.section);
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
