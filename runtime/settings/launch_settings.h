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

/// Returns the launch settings. The plugin, `rollcall env`, `rollcall exec` and the trainer's rendezvous read them.
[[nodiscard]] Table launch_table();

/// How the trainer's ranks find rank 0.
enum class Rendezvous { Auto, Pmix, File, Address };

/// The values of the launch settings, in the types of the code that uses them. It is made once, when all layers are
/// applied. Later code uses the name of a setting only for its origin and for messages. Paths are not expanded yet.
struct LaunchSettings {
  // NOLINTNEXTLINE(google-explicit-constructor): the same settings with types
  LaunchSettings(Settings settings);

  Settings given;  ///< the texts and origins of the values
  bool component_worlds;
  std::string host_template;
  bool loopback_allowed;  ///< the head node may have a loopback address
  std::vector<std::string> gloo_interfaces;
  std::vector<std::string> nccl_interfaces;
  std::vector<std::string> ucx_devices;
  std::string nccl_net;                                ///< empty: NCCL chooses
  std::pair<std::uint16_t, std::uint16_t> port_range;  ///< first and last
  Rendezvous rendezvous;
  std::string rendezvous_folder;
  std::string rendezvous_secret;  ///< empty: the default file
  std::chrono::duration<double> rendezvous_timeout;
  bool run_network;
  std::optional<double> doctor_gigabytes;     ///< GB/s; unset: derived from the speed of the interface
  std::optional<double> doctor_microseconds;  ///< unset: the default limit
  double doctor_clock_seconds;
  std::chrono::duration<double> task_timeout;
  bool kill_on_bad_exit;
  bool keep_threads;                     ///< OMP_NUM_THREADS is not changed
  std::optional<std::uint32_t> threads;  ///< unset: the CPUs of the task
  bool all_gpus_of_node;
  std::string gpu_architectures;  ///< empty: the variable is not changed
  std::string venv;               ///< path; a name without a folder is one in venv.root; empty: none
  std::vector<std::string> variables;
  bool debug;
  bool compare_collectives;
  std::string shared_caches;  ///< empty: the variables are not changed
  std::string local_caches;
  std::string scratch_folder;
  std::uint32_t purge_days;  ///< 0: never
  std::uint32_t warn_days;
};

/// The setting that limits how long a task may take to get its environment.
inline constexpr std::string_view kTaskTimeout = "task.timeout";
/// Returns the default of kTaskTimeout, which applies until the settings are read.
[[nodiscard]] std::chrono::duration<double> default_task_timeout();
/// Returns the error of a task on `host` that is still `doing` something ("looks up jwb0001i") after `patience`.
[[nodiscard]] Error out_of_time(const std::string& host, const std::string& doing,
                                std::chrono::duration<double> patience);

/// The layers that the caller of load_launch_settings() knows.
struct LaunchLayers {
  PluginProfile site = {};                   ///< what plugstack.conf says about the site profile
  std::string_view ddp = {};                 ///< the text of `--ddp=`, "key=value,key=value"
  std::span<const Table> other_tables = {};  ///< as in apply_environment()
};

/// Returns the launch settings with every layer below the command line applied, `--ddp` last; see load_settings().
/// Errors: those of the layers. Errors in `ddp` name `--ddp=KEY`.
[[nodiscard]] Result<Settings> load_launch_settings(const Environment& environment, const LaunchLayers& layers = {});

/// Checks the text of `--ddp=TEXT` alone, without the other layers. Errors: an entry is not key=value; a key is unknown
/// (with the nearest known one); a value is not accepted.
[[nodiscard]] Result<void> check_ddp_option(std::string_view text);

}  // namespace rollcall::settings
