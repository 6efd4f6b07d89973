#include "runtime/settings/launch_settings.h"

#include <fmt/format.h>

#include <array>

#include "runtime/base/text.h"

namespace rollcall::settings {
namespace {

constexpr const char* kDdp = "--ddp";
constexpr std::string_view kPolicies = "shared|local|job|off";

constexpr std::array kLaunchTable{
    Setting{"world", Kind::Choice, "job", "job|component",
            "which ranks train together in a step of a het job: all, or those of each component", "Ranks"},
    Setting{"host.template", Kind::Text, "{host}", "TEXT",
            "name under which the head node is reached; {host} is its name in Slurm, so \"{host}i\" appends an i; "
            "{nodeaddr} alone is its address in Slurm, where only Slurm knows the nodes' names",
            "Network"},
    Setting{"host.loopback", Kind::Choice, "refuse", "refuse|allow",
            "whether a head node of several may resolve to a loopback address (only where all nodes are one machine)",
            "Network"},
    Setting{"interface.gloo", Kind::List, "auto", "NAME[,NAME...]",
            "interfaces for Gloo and TensorPipe, first existing one wins; auto: the one that routes to the head node; "
            "none: leave unset",
            "Network"},
    Setting{"interface.nccl", Kind::List, "auto", "NAME[,NAME...]",
            "interfaces or prefixes for NCCL's sockets; auto: as for Gloo; none: leave unset", "Network"},
    Setting{"interface.ucx", Kind::List, "none", "NAME[,NAME...]",
            "network devices for UCX (UCX_NET_DEVICES); none: UCX chooses itself", "Network"},
    Setting{"nccl.net", Kind::Text, "", "NAME", "network plugin for NCCL (NCCL_NET); empty: NCCL chooses itself",
            "Network"},
    Setting{"port.range", Kind::PortRange, "20000-29999", "FIRST-LAST",
            "ports for MASTER_PORT where Slurm reserved none for the step; best outside the ephemeral ones", "Network"},
    Setting{"rendezvous", Kind::Choice, "auto", "auto|pmix|file|address",
            "how the trainer's ranks find rank 0: over PMIx, through a file on a shared file system, or by MASTER_ADDR "
            "and MASTER_PORT",
            "Network"},
    Setting{"rendezvous.folder", Kind::Path, "", "DIR", "shared folder for rendezvous=file", "Network"},
    Setting{"rendezvous.secret", Kind::Path, "", "FILE",
            "file with the secret that authenticates the processes of a step or run; only you may read it; empty: that "
            "of srun --ddp, or ~/.local/state/rollcall/secret, which is created when first needed",
            "Network"},
    Setting{"rendezvous.timeout", Kind::Number, "60", "SECONDS", "how long a rank waits for the others to appear",
            "Network", "", 0.1, 86400},
    Setting{"run.network", Kind::Switch, "true", "on|off",
            "whether the agents of rollcall run may use a network; off: a run has one node", "Network"},
    Setting{"doctor.bandwidth", Kind::Number, "auto", "GB/S|auto",
            "what rollcall doctor expects of one TCP connection between two nodes, in GB/s; auto: half of the "
            "interface's speed, at most 1.875",
            "Doctor", "auto", 0.001, 10000},
    Setting{"doctor.latency", Kind::Number, "auto", "MICROSECONDS|auto",
            "what rollcall doctor allows a small message between two nodes to take; auto: 500", "Doctor", "auto", 1,
            1e9},
    Setting{"doctor.clock", Kind::Number, "0.5", "SECONDS", "how far rollcall doctor lets the nodes' clocks be apart",
            "Doctor", "", 0.0001, 86400},
    Setting{kTaskTimeout, Kind::Number, "30", "SECONDS",
            "how long srun --ddp may take to read files, look names up and make folders before it ends a task", "Task",
            "", 0.1, 3600},
    Setting{"kill-on-bad-exit", Kind::Switch, "true", "on|off",
            "srun --ddp ends the step once a task fails, as srun --kill-on-bad-exit=1 does; an option that you give to "
            "srun takes precedence",
            "Task"},
    Setting{"threads", Kind::Integer, "auto", "N|auto|keep",
            "OMP_NUM_THREADS: a number, auto (the CPUs of the task) or keep (leave unset)", "Task", "auto|keep", 1,
            65536},
    Setting{"gpus.visible", Kind::Choice, "own", "own|node",
            "whether a task sees the GPUs that Slurm gave it or all of its step on the node", "Task"},
    Setting{"gpus.architectures", Kind::Text, "", "LIST",
            "GPU architectures to compile extensions for, as in 8.0;9.0 (TORCH_CUDA_ARCH_LIST); empty: leave unset",
            "Task"},
    Setting{
        "venv", Kind::Path, "", "DIR",
        "Python virtual environment to activate (PATH, VIRTUAL_ENV): a path, or a name below venv.root; empty: none",
        "Task"},
    Setting{"venv.root", Kind::Path, "", "DIR", "folder in which a venv that is only a name is looked for", "Task"},
    Setting{"variables", Kind::List, "none", "NAME=VALUE[,NAME=VALUE...]",
            "further variables for every task, such as MPICH_GPU_SUPPORT_ENABLED=0; none: no further ones", "Task"},
    Setting{"debug", Kind::Switch, "false", "on|off|collectives",
            "turn on the frameworks' own diagnostics (TORCH_DISTRIBUTED_DEBUG, TORCH_CPP_LOG_LEVEL, TORCH_LOGS, "
            "NCCL_DEBUG); collectives: rollcall-train compares what the ranks call before each collective",
            "Task", "collectives"},
    Setting{
        "cache.shared", Kind::Path, "", "DIR",
        "caches with the policy shared go below this folder, on a file system of all nodes; empty: they are not set",
        "Caches"},
    Setting{"cache.local", Kind::Path, "", "DIR",
            "caches with the policies local and job go below this folder of each node; empty: they are not set",
            "Caches"},
    Setting{"cache.torch", Kind::Choice, "shared", kPolicies, "downloaded models (TORCH_HOME)", "Caches", kPolicies},
    Setting{"cache.huggingface", Kind::Choice, "shared", kPolicies, "downloaded models and data (HF_HOME)", "Caches",
            kPolicies},
    Setting{"cache.xdg", Kind::Choice, "shared", kPolicies, "other caches (XDG_CACHE_HOME)", "Caches", kPolicies},
    Setting{"cache.pip", Kind::Choice, "shared", kPolicies, "downloaded wheels (PIP_CACHE_DIR)", "Caches", kPolicies},
    Setting{"cache.triton", Kind::Choice, "local", kPolicies, "kernels that Triton compiled (TRITON_CACHE_DIR)",
            "Caches", kPolicies},
    Setting{"cache.inductor", Kind::Choice, "local", kPolicies,
            "graphs that torch.compile compiled (TORCHINDUCTOR_CACHE_DIR)", "Caches", kPolicies},
    Setting{"cache.extensions", Kind::Choice, "local", kPolicies,
            "extensions that torch compiled (TORCH_EXTENSIONS_DIR)", "Caches", kPolicies},
    Setting{"cache.cuda", Kind::Choice, "local", kPolicies, "kernels that CUDA's driver compiled (CUDA_CACHE_PATH)",
            "Caches", kPolicies},
    Setting{"cache.miopen", Kind::Choice, "local", kPolicies,
            "what AMD's MIOpen compiled and tuned (MIOPEN_USER_DB_PATH, MIOPEN_CUSTOM_CACHE_DIR)", "Caches", kPolicies},
    Setting{"cache.jax", Kind::Choice, "off", kPolicies, "programs that JAX compiled (JAX_COMPILATION_CACHE_DIR)",
            "Caches", kPolicies},
    Setting{"scratch.folder", Kind::Path, "${SCRATCH}", "DIR", "folder whose old files the site deletes", "Scratch"},
    Setting{"scratch.purge-days", Kind::Integer, "0", "DAYS",
            "age, since the last change or access, at which the site deletes files in scratch.folder; 0: never",
            "Scratch", "", 0, 36500},
    Setting{"scratch.warn-days", Kind::Integer, "14", "DAYS",
            "days before that at which a step warns of the oldest file; no file is changed", "Scratch", "", 0, 36500},
};

std::chrono::duration<double> seconds(const Settings& settings, std::string_view name) {
  return std::chrono::duration<double>(settings.number(name));
}

std::uint32_t count(const Settings& settings, std::string_view name) {
  return static_cast<std::uint32_t>(settings.integer(name));
}

std::optional<double> number_unless(std::string_view word, const Settings& settings, std::string_view name) {
  return settings.text(name) == word ? std::nullopt : std::optional(settings.number(name));
}

Rendezvous rendezvous_of(const std::string& text) {
  return text == "pmix"      ? Rendezvous::Pmix
         : text == "file"    ? Rendezvous::File
         : text == "address" ? Rendezvous::Address
                             : Rendezvous::Auto;
}

/// A name alone is a folder of venv.root.
std::string venv_of(const Settings& settings) {
  const std::string& venv = settings.text("venv");
  const std::string& root = settings.text("venv.root");
  const bool is_path = venv.find('/') != std::string::npos || venv.starts_with('$');
  return venv.empty() || is_path || root.empty() ? venv : root + "/" + venv;
}

std::vector<std::string> variables_of(const Settings& settings) {
  const std::vector<std::string> all = settings.list("variables");
  return all == std::vector<std::string>{"none"} ? std::vector<std::string>() : all;
}

}  // namespace

LaunchSettings::LaunchSettings(Settings settings)
    : given(std::move(settings)),
      component_worlds(given.text("world") == "component"),
      host_template(given.text("host.template")),
      loopback_allowed(given.text("host.loopback") == "allow"),
      gloo_interfaces(given.list("interface.gloo")),
      nccl_interfaces(given.list("interface.nccl")),
      ucx_devices(given.list("interface.ucx")),
      nccl_net(given.text("nccl.net")),
      port_range(given.port_range("port.range")),
      rendezvous(rendezvous_of(given.text("rendezvous"))),
      rendezvous_folder(given.text("rendezvous.folder")),
      rendezvous_secret(given.text("rendezvous.secret")),
      rendezvous_timeout(seconds(given, "rendezvous.timeout")),
      run_network(given.on("run.network")),
      doctor_gigabytes(number_unless("auto", given, "doctor.bandwidth")),
      doctor_microseconds(number_unless("auto", given, "doctor.latency")),
      doctor_clock_seconds(given.number("doctor.clock")),
      task_timeout(seconds(given, kTaskTimeout)),
      kill_on_bad_exit(given.on("kill-on-bad-exit")),
      keep_threads(given.text("threads") == "keep"),
      threads(parse_integer<std::uint32_t>(given.text("threads"))),
      all_gpus_of_node(given.text("gpus.visible") == "node"),
      gpu_architectures(given.text("gpus.architectures")),
      venv(venv_of(given)),
      variables(variables_of(given)),
      debug(given.on("debug")),
      compare_collectives(given.text("debug") == "collectives"),
      shared_caches(given.text("cache.shared")),
      local_caches(given.text("cache.local")),
      scratch_folder(given.text("scratch.folder")),
      purge_days(count(given, "scratch.purge-days")),
      warn_days(count(given, "scratch.warn-days")) {}

Table launch_table() { return kLaunchTable; }

std::chrono::duration<double> default_task_timeout() { return LaunchSettings(Settings(launch_table())).task_timeout; }

Error out_of_time(const std::string& host, const std::string& doing, std::chrono::duration<double> patience) {
  Error error =
      fail(std::string(kTaskTimeout), fmt::format("{:g} s", patience.count()), fmt::format("{} still {}", host, doing),
           "what that waits for, a file server or a name server", ErrorKind::Unavailable);
  error.of_this_node = true;
  return error;
}

Result<Settings> load_launch_settings(const Environment& environment, const LaunchLayers& layers) {
  Result<Settings> settings = load_settings(launch_table(), environment,
                                            StandardLayers{.site = layers.site, .other_tables = layers.other_tables});
  if (settings) {
    settings->doubt_site(layers.site.doubt);
    RETURN_IF_ERROR(apply_key_values(*settings, layers.ddp, kDdp));
  }
  return settings;
}

Result<void> check_ddp_option(std::string_view text) {
  Settings defaults(launch_table());
  return apply_key_values(defaults, text, kDdp);
}

}  // namespace rollcall::settings
