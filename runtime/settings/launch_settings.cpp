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
            "Which ranks of a het job's step train together. job: all. component: those of each component", "Ranks"},
    Setting{"host.template", Kind::Text, "{host}", "TEXT",
            "Name of the head node on the network. {host} is its name in Slurm, so {host}i appends an i. "
            "{nodeaddr} is its address in Slurm, for nodes whose names only Slurm knows",
            "Network"},
    Setting{"host.loopback", Kind::Choice, "refuse", "refuse|allow",
            "Whether the head node of several may have a loopback address. allow: only if all nodes are one "
            "machine",
            "Network"},
    Setting{"interface.gloo", Kind::List, "auto", "NAME[,NAME...]",
            "Network interfaces for Gloo and TensorPipe. The first that exists is used. auto: the interface that "
            "routes to the head node. none: leave unset",
            "Network"},
    Setting{"interface.nccl", Kind::List, "auto", "NAME[,NAME...]",
            "Network interfaces, or prefixes of their names, for NCCL's sockets. auto: as for Gloo. none: leave "
            "unset",
            "Network"},
    Setting{"interface.ucx", Kind::List, "none", "NAME[,NAME...]",
            "Network devices for UCX (UCX_NET_DEVICES). none: UCX chooses", "Network"},
    Setting{"nccl.net", Kind::Text, "", "NAME", "Network plugin for NCCL (NCCL_NET). Empty: NCCL chooses", "Network"},
    Setting{"port.range", Kind::PortRange, "20000-29999", "FIRST-LAST",
            "Ports for MASTER_PORT if Slurm reserved none for the step. They should be outside the ephemeral "
            "ports",
            "Network"},
    Setting{"rendezvous", Kind::Choice, "auto", "auto|pmix|file|address",
            "How the trainer's ranks find rank 0. pmix: over PMIx. file: through a file on a shared file system. "
            "address: by MASTER_ADDR and MASTER_PORT",
            "Network"},
    Setting{"rendezvous.folder", Kind::Path, "", "DIR", "Shared folder for --rendezvous=file", "Network"},
    Setting{"rendezvous.secret", Kind::Path, "", "FILE",
            "File with the secret that authenticates the processes of a step or run. Only you may read it. "
            "Empty: that of srun --ddp, or ~/.local/state/rollcall/secret, which is created when it is first "
            "needed",
            "Network"},
    Setting{"rendezvous.timeout", Kind::Number, "60", "SECONDS", "How long a rank waits for the other ranks", "Network",
            "", 0.1, 86400},
    Setting{"run.network", Kind::Switch, "true", "on|off",
            "Whether the agents of rollcall run may use a network. off: a run has one node", "Network"},
    Setting{"doctor.bandwidth", Kind::Number, "auto", "GB/S|auto",
            "Bandwidth in GB/s that rollcall doctor expects of a TCP connection between two nodes. auto: half of "
            "the interface's speed, at most 1.875",
            "Doctor", "auto", 0.001, 10000},
    Setting{"doctor.latency", Kind::Number, "auto", "MICROSECONDS|auto",
            "Longest time in microseconds that rollcall doctor accepts for a small message between two nodes. "
            "auto: 500",
            "Doctor", "auto", 1, 1e9},
    Setting{"doctor.clock", Kind::Number, "0.5", "SECONDS",
            "Largest difference of the nodes' clocks that rollcall doctor accepts", "Doctor", "", 0.0001, 86400},
    Setting{kTaskTimeout, Kind::Number, "30", "SECONDS",
            "How long srun --ddp may take to read files, look up names and create folders. After that it ends "
            "the task",
            "Task", "", 0.1, 3600},
    Setting{"kill-on-bad-exit", Kind::Switch, "true", "on|off",
            "End the step of srun --ddp once a task fails, like srun --kill-on-bad-exit=1. An option that you "
            "give to srun takes precedence",
            "Task"},
    Setting{"threads", Kind::Integer, "auto", "N|auto|keep",
            "OMP_NUM_THREADS. auto: the CPUs of the task. keep: leave unset", "Task", "auto|keep", 1, 65536},
    Setting{"gpus.visible", Kind::Choice, "own", "own|node",
            "Which GPUs a task sees. own: those that Slurm gave it. node: all of its step on the node", "Task"},
    Setting{"gpus.architectures", Kind::Text, "", "LIST",
            "GPU architectures to compile extensions for, such as 8.0;9.0 (TORCH_CUDA_ARCH_LIST). Empty: leave "
            "unset",
            "Task"},
    Setting{"venv", Kind::Path, "", "DIR",
            "Python virtual environment to activate (PATH, VIRTUAL_ENV). It is a path, or a name in venv.root. "
            "Empty: none",
            "Task"},
    Setting{"venv.root", Kind::Path, "", "DIR", "Folder of virtual environments that --venv names without a path",
            "Task"},
    Setting{"variables", Kind::List, "none", "NAME=VALUE[,NAME=VALUE...]",
            "Further variables for every task, such as MPICH_GPU_SUPPORT_ENABLED=0. none: no further ones", "Task"},
    Setting{"debug", Kind::Switch, "false", "on|off|collectives",
            "Turn on diagnostics of the frameworks (TORCH_DISTRIBUTED_DEBUG, TORCH_CPP_LOG_LEVEL, TORCH_LOGS, "
            "NCCL_DEBUG). collectives: rollcall-train also compares the calls of all ranks before each collective",
            "Task", "collectives"},
    Setting{"cache.shared", Kind::Path, "", "DIR",
            "Folder of the caches with policy shared, on a file system of all nodes. Empty: they are not set",
            "Caches"},
    Setting{"cache.local", Kind::Path, "", "DIR",
            "Folder on each node of the caches with policies local and job. Empty: they are not set", "Caches"},
    Setting{"cache.torch", Kind::Choice, "shared", kPolicies, "Downloaded models (TORCH_HOME)", "Caches", kPolicies},
    Setting{"cache.huggingface", Kind::Choice, "shared", kPolicies, "Downloaded models and data (HF_HOME)", "Caches",
            kPolicies},
    Setting{"cache.xdg", Kind::Choice, "shared", kPolicies, "Other caches (XDG_CACHE_HOME)", "Caches", kPolicies},
    Setting{"cache.pip", Kind::Choice, "shared", kPolicies, "Downloaded wheels (PIP_CACHE_DIR)", "Caches", kPolicies},
    Setting{"cache.triton", Kind::Choice, "local", kPolicies, "Kernels compiled by Triton (TRITON_CACHE_DIR)", "Caches",
            kPolicies},
    Setting{"cache.inductor", Kind::Choice, "local", kPolicies,
            "Graphs compiled by torch.compile (TORCHINDUCTOR_CACHE_DIR)", "Caches", kPolicies},
    Setting{"cache.extensions", Kind::Choice, "local", kPolicies, "Extensions compiled by torch (TORCH_EXTENSIONS_DIR)",
            "Caches", kPolicies},
    Setting{"cache.cuda", Kind::Choice, "local", kPolicies, "Kernels compiled by CUDA's driver (CUDA_CACHE_PATH)",
            "Caches", kPolicies},
    Setting{"cache.miopen", Kind::Choice, "local", kPolicies,
            "Kernels compiled and tuned by AMD's MIOpen (MIOPEN_USER_DB_PATH, MIOPEN_CUSTOM_CACHE_DIR)", "Caches",
            kPolicies},
    Setting{"cache.jax", Kind::Choice, "off", kPolicies, "Programs compiled by JAX (JAX_COMPILATION_CACHE_DIR)",
            "Caches", kPolicies},
    Setting{"scratch.folder", Kind::Path, "${SCRATCH}", "DIR", "Folder whose old files the site deletes", "Scratch"},
    Setting{"scratch.purge-days", Kind::Integer, "0", "DAYS",
            "Days since the last change or access after which the site deletes files in scratch.folder. 0: never",
            "Scratch", "", 0, 36500},
    Setting{"scratch.warn-days", Kind::Integer, "14", "DAYS",
            "Days before that at which a step warns of the oldest file. No file is changed", "Scratch", "", 0, 36500},
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

/// Returns the path of the virtual environment. A name without a folder is one in venv.root.
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
           "checking the file server or name server that this waits for", ErrorKind::Unavailable);
  error.of_this_node = true;
  return error;
}

Result<Settings> load_launch_settings(const Environment& environment, const LaunchLayers& layers) {
  Result<Settings> settings = load_settings(launch_table(), environment,
                                            StandardLayers{.site = layers.site, .other_tables = layers.other_tables});
  if (settings) {
    settings->set_site_doubt(layers.site.doubt);
    RETURN_IF_ERROR(apply_key_values(*settings, layers.ddp, kDdp));
  }
  return settings;
}

Result<void> check_ddp_option(std::string_view text) {
  Settings defaults(launch_table());
  return apply_key_values(defaults, text, kDdp);
}

}  // namespace rollcall::settings
