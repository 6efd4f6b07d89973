#include "runtime/settings/launch_settings.h"

#include <array>
#include <utility>

#include "runtime/settings/standard_layers.h"

namespace rollcall::settings {
namespace {

constexpr std::array kLaunchTable{
    Setting{"host.template", Kind::Text, "{host}", "TEXT",
            "name under which the head node is reached; {host} is its name in Slurm, so \"{host}i\" appends an i",
            "Network"},
    Setting{"host.loopback", Kind::Choice, "refuse", "refuse|allow",
            "whether a head node of several may resolve to a loopback address (only where all nodes are one machine)",
            "Network", "refuse|allow"},
    Setting{"interface.gloo", Kind::List, "auto", "NAME[,NAME...]",
            "interfaces for Gloo and TensorPipe, first existing one wins; auto: the one that routes to the head node; "
            "none: leave unset",
            "Network"},
    Setting{"interface.nccl", Kind::List, "auto", "NAME[,NAME...]",
            "interfaces or prefixes for NCCL's sockets; auto: as for Gloo; none: leave unset", "Network"},
    Setting{"interface.ucx", Kind::List, "none", "NAME[,NAME...]",
            "network devices for UCX (UCX_NET_DEVICES); none: UCX chooses itself", "Network"},
    Setting{"port.range", Kind::PortRange, "20000-29999", "FIRST-LAST",
            "ports for MASTER_PORT where Slurm reserved none for the step; must lie outside the ephemeral ports",
            "Network"},
    Setting{"rendezvous", Kind::Choice, "auto", "auto|pmix|file|address",
            "how the trainer's ranks find rank 0: over PMIx, through a file on a shared file system, or by MASTER_ADDR "
            "and MASTER_PORT",
            "Network", "auto|pmix|file|address"},
    Setting{"rendezvous.folder", Kind::Path, "", "DIR", "shared folder for rendezvous=file", "Network"},
    Setting{"rendezvous.timeout", Kind::Number, "60", "SECONDS", "how long a rank waits for the others to appear",
            "Network", "", 0.1, 86400},
    Setting{"threads", Kind::Integer, "auto", "N|auto|keep",
            "OMP_NUM_THREADS: a number, auto (the CPUs of the task) or keep (leave unset)", "Task", "auto|keep", 1,
            65536},
    Setting{"gpus.visible", Kind::Choice, "own", "own|node",
            "whether a task sees the GPUs that Slurm gave it or all of its step on the node", "Task", "own|node"},
    Setting{"venv", Kind::Path, "", "DIR", "Python virtual environment to activate (PATH, VIRTUAL_ENV); empty: none",
            "Task"},
    Setting{"debug", Kind::Switch, "false", "on|off",
            "turn on the frameworks' own diagnostics (TORCH_DISTRIBUTED_DEBUG, TORCH_CPP_LOG_LEVEL, NCCL_DEBUG)",
            "Task"},
    Setting{"cache.shared", Kind::Path, "", "DIR",
            "downloads (TORCH_HOME, HF_HOME, XDG_CACHE_HOME, PIP_CACHE_DIR) go below this folder; empty: left alone",
            "Caches"},
    Setting{"cache.local", Kind::Path, "", "DIR",
            "JIT caches (TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR, TORCH_EXTENSIONS_DIR) go below this node-local "
            "folder; empty: left alone",
            "Caches"},
};

}  // namespace

Table launch_table() { return kLaunchTable; }

Result<Settings> load_launch_settings(const Environment& environment, std::optional<std::string> site_file,
                                      std::span<const Table> other_tables) {
  return load_settings(launch_table(), environment,
                       StandardLayers{.site_file = std::move(site_file), .other_tables = other_tables});
}

}  // namespace rollcall::settings
