#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/layers.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// The settings of launching: what the plugin, `rollcall env`, `rollcall exec` and the trainer's rendezvous read.
[[nodiscard]] Table launch_table();

/// The setting that limits how long a task may take to get its environment.
inline constexpr std::string_view kTaskTimeout = "task.timeout";
/// Its default: what holds as long as the settings themselves are not read.
[[nodiscard]] std::chrono::duration<double> default_task_timeout();
/// The error of a task on `host` that still is `doing` something ("looks up jwb0001i") after `patience`.
[[nodiscard]] Error out_of_time(const std::string& host, const std::string& doing,
                                std::chrono::duration<double> patience);

/// What a caller knows of the layers below and above the variables.
struct LaunchLayers {
  PluginProfile site = {};                   ///< what plugstack.conf says of the site profile
  std::string_view ddp = {};                 ///< the text of `--ddp=`, "key=value,key=value"
  std::span<const Table> other_tables = {};  ///< as in apply_environment()
};

/// The launch settings with every layer below the command line applied, `--ddp` last; see load_settings(). Errors:
/// those of the layers; what is wrong in `ddp` is told as `--ddp=KEY`.
[[nodiscard]] Result<Settings> load_launch_settings(const Environment& environment, const LaunchLayers& layers = {});

/// Whether `--ddp=TEXT` would be taken where no other layer is in the way. Error: not key=value, an unknown key (with
/// the nearest known one), a value that its setting does not take.
[[nodiscard]] Result<void> check_ddp_option(std::string_view text);

}  // namespace rollcall::settings
