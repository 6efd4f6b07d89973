#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/layers.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// The settings of launching: what the plugin, `rollcall env`, `rollcall exec` and the trainer's rendezvous read.
[[nodiscard]] Table launch_table();

/// How the trainer's ranks find rank 0.
enum class Rendezvous { Auto, Pmix, File, Address };

/// What the launch settings mean, in the types of those who use them: made once, when all layers are applied. Nothing
/// behind it asks for a setting by its name, but for its origin and for messages. Paths are not expanded yet.
struct LaunchSettings {
  // NOLINTNEXTLINE(google-explicit-constructor): the same settings, read
  LaunchSettings(Settings settings);

  Settings given;  ///< their texts and origins
  bool component_worlds;
  std::string host_template;
  bool loopback_allowed;  ///< all nodes are one machine
  std::vector<std::string> gloo_interfaces;
  std::vector<std::string> nccl_interfaces;
  std::vector<std::string> ucx_devices;
  std::string nccl_net;                                ///< empty: NCCL's choice
  std::pair<std::uint16_t, std::uint16_t> port_range;  ///< first and last
  Rendezvous rendezvous;
  std::string rendezvous_folder;
  std::string rendezvous_secret;  ///< empty: none is named
  std::chrono::duration<double> rendezvous_timeout;
  bool run_network;
  std::optional<double> doctor_gigabytes;  ///< nothing: of the interface
  std::optional<double> doctor_microseconds;
  double doctor_clock_seconds;
  std::chrono::duration<double> task_timeout;
  bool kill_on_bad_exit;
  bool keep_threads;                     ///< OMP_NUM_THREADS is left alone
  std::optional<std::uint32_t> threads;  ///< nothing: the CPUs of the task
  bool all_gpus_of_node;
  std::string gpu_architectures;  ///< empty: left alone
  std::string venv;               ///< a path below venv.root where it was a name alone; empty: none
  std::vector<std::string> variables;
  bool debug;
  bool compare_collectives;
  std::string shared_caches;  ///< empty: left alone
  std::string local_caches;
  std::string scratch_folder;
  std::uint32_t purge_days;  ///< 0: never
  std::uint32_t warn_days;
};

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
