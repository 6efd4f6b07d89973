#pragma once

#include "runtime/hooks/plugin_link.h"
#include "runtime/settings/layers.h"

namespace rollcall::hooks {

/// Returns the site profile that the plugin's line in plugstack.conf names, from the items of a request.
[[nodiscard]] inline settings::PluginProfile site_of(const Request& request) {
  return settings::plugin_profile(request.item("config").value_or(""), request.item("config_owner").value_or(""));
}

}  // namespace rollcall::hooks
