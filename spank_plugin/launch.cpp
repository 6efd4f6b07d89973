#include "spank_plugin/launch.h"

#include <unistd.h>

#include "runtime/settings/launch_settings.h"

namespace rollcall::spank {

Result<settings::Settings> load_settings(const DdpOption& option, const std::optional<std::string>& site_file,
                                         const Environment& user) {
  Result<settings::Settings> settings = settings::load_launch_settings(user, site_file);
  if (settings) {
    if (const Result<void> applied = settings::apply_key_values(*settings, option.key_values, "--ddp"); !applied) {
      return applied.error();
    }
  }
  return settings;
}

Result<void> check_before_launch(const DdpOption& option, const std::optional<std::string>& site_file) {
  const bool readable = site_file && ::access(site_file->c_str(), R_OK) == 0;
  const auto settings = load_settings(option, readable ? site_file : std::nullopt, Environment::of_this_process());
  if (!settings) {
    return settings.error();
  }
  return {};
}

}  // namespace rollcall::spank
