#pragma once

#include <array>
#include <string_view>

#include "runtime/contract/env_vars.h"

namespace rollcall::env {

/// Texts that several rows share.
inline constexpr std::string_view kNoCacheFolder =
    "its setting is off, or the folder of its policy (`cache.shared`, `cache.local`) is empty (the default) or "
    "unusable";
inline constexpr std::string_view kNoTorchrun =
    "a node has several tasks (each would start a torchrun of its own), or the step has one node";
inline constexpr std::string_view kNoDebug = "debug=off (the default)";

enum class Use { Read, ReadAndWritten };

/// One environment variable of the contract between rollcall and the world: a row of docs/reference/environment.md.
struct Variable {
  std::string_view name;
  Use use = Use::Read;
  std::string_view used_by;          ///< the part of rollcall; after the semicolon, other programs that use it
  std::string_view meaning;          ///< one clause, no full stop
  std::string_view value_from = "";  ///< for written variables: the source of rollcall's value
  std::string_view left_alone = "";  ///< for written variables: when rollcall does not set it; users' values aside
};

/// All variables that rollcall reads or writes, except ROLLCALL_<SETTING> (see the settings tables), the variables that
/// paths may use as ${NAME} (runtime/settings), and those that a site adds by the setting `variables`.
inline constexpr std::array kVariables{
    Variable{kMarker, Use::ReadAndWritten, "resolve; rollcall",
             "variables that rollcall set: NAME:HASH,... with the 32-bit FNV-1a of the value; a value changed since is "
             "the user's",
             "this table", "never"},
    Variable{kStep, Use::ReadAndWritten, "resolve; rollcall",
             "the step that these values were made for: JOB.STEP, run.HASH under mpirun, or job.JOB without srun",
             "Slurm's ids, mpirun's namespace", "never"},
    Variable{kSecretFd, Use::Read, "trainer; rollcall",
             "set by srun --ddp, and by `rollcall run` for its workers: the file descriptor from which they read the "
             "secret of the step or run"},
    Variable{kSiteConfig, Use::Read, "settings; users", "site profile to read instead of /etc/rollcall/site.toml"},
    Variable{kRun, Use::Read, "trainer; programs under `rollcall run`",
             "set by `rollcall run` for its workers: the same for all its generations, and for no other run"},
    Variable{kGeneration, Use::Read, "trainer; programs under `rollcall run`",
             "set by `rollcall run` for its workers: 1, 2, ...; a new number after each restart, and after each node "
             "that joined or left"},
    Variable{kAgentLink, Use::Read, "trainer",
             "set by `rollcall run` for its workers: the file descriptor on which a worker that continues after a "
             "change (`--elastic`) receives its next world"},
    Variable{kStandby, Use::Read, "trainer",
             "1: set by `rollcall run` for a standby process that replaces a failed worker: it has no rank yet"},
    Variable{"ROLLCALL_DEPS", Use::Read, "scripts/setup; developers", "folder of LibTorch and the tests' Python"},
    Variable{"ROLLCALL_DEBIAN_MIRROR", Use::Read, "scripts/second-slurm; developers",
             "where Debian's packages come from"},
    Variable{"ROLLCALL_TEST_SLURM", Use::Read, "scripts/minicluster; developers",
             "which Slurm a throwaway cluster runs: nothing for this machine's own, trixie or forky"},
    Variable{"ROLLCALL_BUILD_DIR", Use::Read, "tests and benchmarks; developers", "the build that is tested"},
    Variable{"ROLLCALL_SOURCE_DIR", Use::Read, "tests; developers", "the sources of that build"},
    Variable{"ROLLCALL_TEST_SWEEP", Use::Read, "tests; developers", "full: tests try all combinations instead of some"},
    Variable{"ROLLCALL_ALL_RESUMES", Use::Read, "tests; developers", "set: exact resume is tested in all combinations"},
    Variable{"ROLLCALL_BENCHMARK_IMAGES", Use::Read, "benchmarks; developers", "a folder of images to measure with"},
    Variable{kSystemName, Use::Read, "settings; Jülich's systems",
             "name of the system: compared with the names in site profiles, never used as a path"},

    Variable{kRank, Use::ReadAndWritten, "resolve; torch, Lightning, Accelerate, DeepSpeed",
             "rank of this task in the step", "SLURM_PROCID, else PMIx",
             "a user's that contradicts the step: error 76"},
    Variable{kWorldSize, Use::ReadAndWritten, "resolve; torch, Lightning, Accelerate, DeepSpeed",
             "number of tasks of the step", "SLURM_STEP_NUM_TASKS, else PMIx",
             "a user's that contradicts the step: error 76"},
    Variable{kLocalRank, Use::ReadAndWritten, "resolve; torch, Lightning, Accelerate, DeepSpeed",
             "rank of this task on its node", "SLURM_LOCALID, else PMIx"},
    Variable{kLocalWorldSize, Use::ReadAndWritten, "resolve; torch, Accelerate",
             "number of tasks of the step on this node", "SLURM_STEP_TASKS_PER_NODE, else PMIx"},
    Variable{kGroupRank, Use::ReadAndWritten, "resolve; programs written for torchrun, Lightning",
             "index of this node in the step", "SLURM_NODEID, else PMIx"},
    Variable{kGroupWorldSize, Use::ReadAndWritten, "resolve; programs written for torchrun",
             "number of nodes of the step", "SLURM_STEP_NUM_NODES, else PMIx"},
    Variable{kRoleRank, Use::ReadAndWritten, "resolve; programs written for torchrun",
             "rank among the tasks of the same role: all have one role", "as RANK"},
    Variable{kRoleWorldSize, Use::ReadAndWritten, "resolve; programs written for torchrun",
             "number of tasks of the same role", "as WORLD_SIZE"},
    Variable{kRoleName, Use::ReadAndWritten, "resolve; programs written for torchrun", "name of the role",
             "default, as torchrun calls its only one"},
    Variable{kRestartCount, Use::ReadAndWritten, "resolve; programs written for torchrun",
             "how often the job was requeued: a program that resumes looks here", "SLURM_RESTART_COUNT, else 0"},
    Variable{kNodeRank, Use::ReadAndWritten, "resolve; Lightning", "index of this node in the step",
             "SLURM_NODEID, else PMIx"},
    Variable{kLocalSize, Use::ReadAndWritten, "resolve; programs written for DeepSpeed's launcher",
             "number of tasks of the step on this node", "as LOCAL_WORLD_SIZE"},
    Variable{kCrossRank, Use::ReadAndWritten, "resolve; programs written for DeepSpeed's launcher",
             "index of this node in the step", "as GROUP_RANK"},
    Variable{kCrossSize, Use::ReadAndWritten, "resolve; programs written for DeepSpeed's launcher",
             "number of nodes of the step", "as GROUP_WORLD_SIZE"},
    Variable{kMasterAddr, Use::ReadAndWritten, "resolve, rendezvous; torch, Lightning, Accelerate, DeepSpeed",
             "host of rank 0, under a name that all nodes reach",
             "first of SLURM_STEP_NODELIST (arbitrary distribution: the step's layout) through `host.template`, "
             "looked up on each node",
             "the node of rank 0 is unknown: ends the task (69)"},
    Variable{kMasterPort, Use::ReadAndWritten, "resolve, rendezvous; torch, Lightning, Accelerate, DeepSpeed",
             "TCP port at which rank 0 listens",
             "first of SLURM_STEP_RESV_PORTS, else a place in `port.range` by job and step"},
    Variable{kTorchElasticRunId, Use::Read, "launchers; torchrun sets it",
             "set by torchrun: the ranks in the environment are then used"},

    Variable{"ACCELERATE_USE_CPU", Use::ReadAndWritten, "resolve; Accelerate, transformers.Trainer",
             "train on CPUs: without it Accelerate takes ranks without a GPU for programs of their own, each of which "
             "trains alone",
             "true", "the task sees an accelerator, or is the only one"},
    Variable{kTorchrunNodes, Use::ReadAndWritten, "resolve; torchrun",
             "default of torchrun --nnodes; for torchrun --standalone in a step of several nodes add --nnodes=1",
             "as GROUP_WORLD_SIZE", kNoTorchrun},
    Variable{"PET_NODE_RANK", Use::ReadAndWritten, "resolve; torchrun", "default of torchrun --node-rank",
             "RANK: torchrun's nodes count as their tasks do, rank 0's first", kNoTorchrun},
    Variable{"PET_MASTER_ADDR", Use::ReadAndWritten, "resolve; torchrun", "default of torchrun --master-addr",
             "MASTER_ADDR, whoever set it", kNoTorchrun},
    Variable{"PET_MASTER_PORT", Use::ReadAndWritten, "resolve; torchrun", "default of torchrun --master-port",
             "MASTER_PORT, whoever set it", kNoTorchrun},
    Variable{
        "PET_RDZV_CONF", Use::ReadAndWritten, "resolve; torchrun",
        "default of torchrun --rdzv-conf: whether this node opens the store, which torchrun otherwise guesses from "
        "names",
        "is_host=1 on the head node; nothing elsewhere, where torchrun guesses right (is_host=0 where "
        "`host.loopback` says that all nodes are one machine)",
        "several tasks share a node (each would start a torchrun of its own)"},
    Variable{"PET_LOCAL_ADDR", Use::ReadAndWritten, "resolve; torchrun",
             "default of torchrun --local-addr: this node's address instead of a name that the others may not know",
             "an address of GLOO_SOCKET_IFNAME, IPv4 first, never link-local", kNoTorchrun},

    Variable{kJaxCoordinator, Use::ReadAndWritten, "resolve; JAX", "HOST:PORT at which process 0 listens",
             "MASTER_ADDR and MASTER_PORT, whoever set them", "MASTER_ADDR is not known"},
    Variable{kJaxNumProcesses, Use::ReadAndWritten, "resolve; programs written for JAX (JAX itself asks Slurm)",
             "number of tasks of the step", "as WORLD_SIZE"},
    Variable{kJaxProcessId, Use::ReadAndWritten, "resolve; programs written for JAX (JAX itself asks Slurm)",
             "rank of this task in the step", "as RANK"},
    Variable{
        kJaxLocalDevices, Use::ReadAndWritten, "resolve; JAX",
        "GPUs of this process, counted from 0 among those that it sees; without it JAX takes number SLURM_LOCALID, "
        "which does not exist where a task sees its own GPU only",
        "CUDA_VISIBLE_DEVICES: all of them for the only task of a node, 0 where a task sees one GPU",
        "several tasks see several GPUs: then JAX's own choice is right; no GPU is visible"},

    Variable{kGlooInterface, Use::ReadAndWritten, "resolve; Gloo", "network interface; concrete names only",
             "`interface.gloo`: the first that exists here and is up; auto: the one that routes to the head node",
             "interface.gloo=none, or no route is known"},
    Variable{"TP_SOCKET_IFNAME", Use::ReadAndWritten, "resolve; TensorPipe (torch.distributed.rpc)",
             "network interface; concrete names only", "as GLOO_SOCKET_IFNAME", "as GLOO_SOCKET_IFNAME"},
    Variable{"NCCL_SOCKET_IFNAME", Use::ReadAndWritten, "resolve; NCCL", "network interfaces or prefixes of names",
             "`interface.nccl`, at least one of which exists here; auto: as GLOO_SOCKET_IFNAME",
             "interface.nccl=none, or no route is known"},
    Variable{kNcclNet, Use::ReadAndWritten, "resolve; NCCL", "name of NCCL's network plugin", "`nccl.net`",
             "nccl.net is empty (the default)"},
    Variable{"UCX_NET_DEVICES", Use::ReadAndWritten, "resolve; UCX", "network devices", "`interface.ucx`",
             "interface.ucx=none (the default)"},

    Variable{kOmpThreads, Use::ReadAndWritten, "resolve; OpenMP, torch", "threads of one task",
             "`threads`; auto: the CPUs that the task may run on, or its share of the node's where the step binds none",
             "threads=keep"},
    Variable{kCudaVisible, Use::ReadAndWritten, "resolve; CUDA", "GPUs that this task sees",
             "gpus.visible=node: SLURM_STEP_GPUS, else SLURM_JOB_GPUS", "gpus.visible=own (the default)"},
    Variable{"ROCR_VISIBLE_DEVICES", Use::Read, "doctor; ROCm, Slurm", "GPUs that this task sees"},
    Variable{"HIP_VISIBLE_DEVICES", Use::Read, "doctor; HIP", "GPUs that this task sees"},
    Variable{"TORCH_CUDA_ARCH_LIST", Use::ReadAndWritten, "resolve; torch.utils.cpp_extension",
             "GPU architectures to compile extensions for, also on nodes without a GPU", "`gpus.architectures`",
             "gpus.architectures is empty (the default)"},
    Variable{kPath, Use::ReadAndWritten, "resolve; every program", "where programs are looked for",
             "`venv`: its bin folder is put in front of the user's value", "venv is empty (the default)"},
    Variable{kVirtualEnv, Use::ReadAndWritten, "resolve; Python's tools", "root of the active virtual environment",
             "`venv`", "venv is empty (the default)"},

    Variable{"TORCH_HOME", Use::ReadAndWritten, "resolve; torch.hub, torchvision", "downloaded models", "`cache.torch`",
             kNoCacheFolder},
    Variable{"HF_HOME", Use::ReadAndWritten, "resolve; Hugging Face", "downloaded models and data",
             "`cache.huggingface`", kNoCacheFolder},
    Variable{"XDG_CACHE_HOME", Use::ReadAndWritten, "resolve; many programs", "other caches", "`cache.xdg`",
             kNoCacheFolder},
    Variable{"PIP_CACHE_DIR", Use::ReadAndWritten, "resolve; pip", "downloaded wheels", "`cache.pip`", kNoCacheFolder},
    Variable{"TRITON_CACHE_DIR", Use::ReadAndWritten, "resolve; Triton", "compiled kernels", "`cache.triton`",
             kNoCacheFolder},
    Variable{"TORCHINDUCTOR_CACHE_DIR", Use::ReadAndWritten, "resolve; torch.compile", "compiled graphs",
             "`cache.inductor`", kNoCacheFolder},
    Variable{"TORCH_EXTENSIONS_DIR", Use::ReadAndWritten, "resolve; torch.utils.cpp_extension", "compiled extensions",
             "`cache.extensions`", kNoCacheFolder},
    Variable{"CUDA_CACHE_PATH", Use::ReadAndWritten, "resolve; CUDA's driver", "kernels compiled from PTX",
             "`cache.cuda`", kNoCacheFolder},
    Variable{"MIOPEN_USER_DB_PATH", Use::ReadAndWritten, "resolve; MIOpen (AMD)", "tuning results", "`cache.miopen`",
             kNoCacheFolder},
    Variable{"MIOPEN_CUSTOM_CACHE_DIR", Use::ReadAndWritten, "resolve; MIOpen (AMD)", "compiled kernels",
             "`cache.miopen`", kNoCacheFolder},
    Variable{"JAX_COMPILATION_CACHE_DIR", Use::ReadAndWritten, "resolve; JAX",
             "compiled programs; JAX keeps none without it", "`cache.jax`", "cache.jax=off (the default)"},

    Variable{"TORCH_DISTRIBUTED_DEBUG", Use::ReadAndWritten, "resolve; torch", "checks of collectives", "DETAIL",
             kNoDebug},
    Variable{"TORCH_CPP_LOG_LEVEL", Use::ReadAndWritten, "resolve; torch", "messages of its C++ parts", "INFO",
             kNoDebug},
    Variable{"TORCH_SHOW_CPP_STACKTRACES", Use::ReadAndWritten, "resolve; torch", "where an error came from", "1",
             kNoDebug},
    Variable{"TORCH_LOGS", Use::ReadAndWritten, "resolve; torch", "messages of its Python parts", "+distributed",
             kNoDebug},
    Variable{"NCCL_DEBUG", Use::ReadAndWritten, "resolve; NCCL", "which interfaces and plugins NCCL takes", "INFO",
             kNoDebug},

    Variable{kSlurmJobId, Use::Read, "launchers; Slurm", "the job (of a het job: its first component)"},
    Variable{kSlurmArrayJobId, Use::Read, "launchers, rollcall-train; Slurm",
             "the array that this job is an element of"},
    Variable{kSlurmArrayTaskId, Use::Read, "launchers, rollcall-train; Slurm",
             "which element: part of the run folder's name"},
    Variable{"SLURM_JOB_NODELIST", Use::Read, "launchers; Slurm", "nodes of the job: those of the step are among them"},
    Variable{kSlurmStepId, Use::Read, "launchers; Slurm",
             "the step; special numbers for batch, interactive and extern steps"},
    Variable{kSlurmProcId, Use::Read, "launchers; Slurm", "rank of this task in the step"},
    Variable{kSlurmLocalId, Use::Read, "launchers; Slurm", "rank of this task on its node"},
    Variable{kSlurmNodeId, Use::Read, "launchers; Slurm", "index of this node in the step"},
    Variable{"SLURM_GTIDS", Use::Read, "launchers; Slurm", "ranks of this node's tasks, in the order of local ranks"},
    Variable{kSlurmStepTasks, Use::Read, "launchers; Slurm", "number of tasks of the step"},
    Variable{kSlurmStepNodes, Use::Read, "launchers; Slurm", "number of nodes of the step"},
    Variable{kSlurmStepNodeList, Use::Read, "launchers; Slurm", "nodes of the step, compressed"},
    Variable{kSlurmStepTasksPerNode, Use::Read, "launchers; Slurm", "tasks on each node of the step, compressed"},
    Variable{"SLURM_STEP_RESV_PORTS", Use::Read, "launchers; Slurm", "ports that no other step has (MpiParams=ports=)"},
    Variable{kSlurmNodeName, Use::Read, "launchers; Slurm", "this node, as Slurm names it"},
    Variable{"SLURM_DISTRIBUTION", Use::Read, "launchers; Slurm",
             "how tasks are placed; arbitrary hides rank 0's node"},
    Variable{kSlurmHetSize, Use::Read, "launchers; Slurm", "set in steps of a het job: its number of components"},
    Variable{kSlurmHetNodeList, Use::Read, "launchers; Slurm",
             "with a component's number at its end: nodes of that component of a het job"},
    Variable{"SLURM_HOSTFILE", Use::Read, "launchers; Slurm",
             "arbitrary distribution: file with the host of each rank"},
    Variable{"SLURM_JOB_NUM_NODES", Use::Read, "step; Slurm",
             "nodes of the job: with several, a program that was not started by srun prints a warning"},
    Variable{kSlurmRestartCount, Use::Read, "launchers, rollcall-train; Slurm", "how often the job was requeued"},
    Variable{kSlurmJobEndTime, Use::Read, "rollcall-train; Slurm 24.11 and newer",
             "when the job reaches its time limit, in seconds since 1970: for --save-before-limit"},
    Variable{kSlurmClusterName, Use::Read, "settings; Slurm", "the cluster: compared with the names in site profiles"},
    Variable{
        kSlurmCpusPerTask, Use::Read, "resolve; Slurm",
        "CPUs of one task, if sbatch or srun was asked for them; since Slurm 22.05 srun does not inherit sbatch's, and "
        "tasks with fewer cause a warning: export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun"},
    Variable{kSlurmCpusOnNode, Use::Read, "resolve, rollcall-train; Slurm", "CPUs of the step on this node"},
    Variable{kSlurmStepGpus, Use::Read, "resolve; Slurm", "GPUs of the step (in a task: perhaps only its own)"},
    Variable{kSlurmGpusOnNode, Use::Read, "resolve; Slurm", "number of GPUs of the step on this node"},
    Variable{kSlurmJobGpus, Use::Read, "resolve; Slurm", "GPUs of the job on this node"},
    Variable{kKillOnBadExit, Use::Read, "spank_plugin; Slurm",
             "whether srun ends a step with its first failing task: srun --ddp sets it to 1 for srun, if the user did "
             "not and `kill-on-bad-exit` is on; tasks do not get it"},
    Variable{kTaskProlog, Use::Read, "install; Slurm",
             "program that runs before each task; with `rollcall install --user`, srun --ddp sets rollcall's, and "
             "restores the user's own for the task"},
    Variable{kForwardedOption, Use::Read, "install; rollcall",
             "the text of --ddp between srun and that program; no task has it"},
    Variable{kUserTaskProlog, Use::Read, "install; rollcall",
             "the user's own prolog between srun and that program; no task has it"},
    Variable{kStepSecret, Use::Read, "spank_plugin, install; rollcall",
             "the step's secret between srun --ddp and slurmstepd; no task has it"},
    Variable{kScriptContext, Use::Read, "install; Slurm", "left by Slurm after a task prolog; rollcall's removes it"},
    Variable{kPmixNamespace, Use::Read, "launchers, rendezvous; PMIx", "set where a PMIx server started this task"},
    Variable{kPmixRank, Use::Read, "launchers; PMIx", "rank of this task, a cross-check"},
    Variable{kPmixGds, Use::ReadAndWritten, "rendezvous; PMIx",
             "how a PMIx client gets the facts of its step: a second client of the same rank, the program behind "
             "`rollcall exec`, finds them only with `hash`",
             "`rollcall exec` under PMIx", "`rollcall exec` did not need PMIx; `srun --ddp` never does"},

    Variable{kOmpiRank, Use::Read, "launchers; Open MPI", "rank under mpirun"},
    Variable{"OMPI_COMM_WORLD_SIZE", Use::Read, "launchers; Open MPI", "number of ranks under mpirun"},
    Variable{"OMPI_COMM_WORLD_LOCAL_RANK", Use::Read, "launchers; Open MPI", "rank on its node under mpirun"},
    Variable{"OMPI_COMM_WORLD_LOCAL_SIZE", Use::Read, "launchers; Open MPI", "ranks on this node under mpirun"},
    Variable{"OMPI_MCA_ess_base_jobid", Use::Read, "launchers; Open MPI",
             "distinguishes one mpirun from another if PMIX_NAMESPACE is unset"},
    Variable{"PMI_RANK", Use::Read, "launchers; MPICH, Intel MPI, Slurm's pmi2", "rank under a PMI launcher"},
    Variable{"PMI_SIZE", Use::Read, "launchers; MPICH, Intel MPI, Slurm's pmi2", "number of ranks"},
    Variable{kHydraLocalRank, Use::Read, "launchers; MPICH, Intel MPI", "rank on its node"},
    Variable{"MPI_LOCALNRANKS", Use::Read, "launchers; MPICH, Intel MPI", "ranks on this node"},
    Variable{"PMI_LOCAL_RANK", Use::Read, "launchers; Cray PALS", "rank on its node"},
    Variable{"PMI_LOCAL_SIZE", Use::Read, "launchers; Cray PALS", "ranks on this node"},
    Variable{kPmiJobId, Use::Read, "launchers; Slurm's pmi2", "the same in all ranks of a run"},
    Variable{"PMI_KVSNAME", Use::Read, "launchers; PMI-1", "the same in all ranks of a run"},
};

/// A variable that a reader may expect in this table, but that rollcall never sets.
struct NeverSet {
  std::string_view name;    ///< a name, or a prefix with a star at its end
  std::string_view reason;  ///< why rollcall does not set it
};

inline constexpr std::array kNeverSet{
    NeverSet{kTorchElasticRunId,
             "means that torchrun's agent runs the process: torch.distributed.is_torchelastic_launched(), Lightning "
             "and rollcall itself rely on it"},
    NeverSet{"TORCHELASTIC_USE_AGENT_STORE",
             "makes rank 0 connect to a store that an agent would have opened: without one it hangs"},
    NeverSet{"TORCHELASTIC_MAX_RESTARTS", "is an agent's; how often Slurm requeues a job is up to the site"},
    NeverSet{"TORCHELASTIC_ERROR_FILE", "names a file that an agent would read"},
    NeverSet{"PET_RDZV_BACKEND", "would turn torchrun's default rendezvous into another; PET_MASTER_ADDR serves both"},
    NeverSet{"JAX_COORDINATOR_BIND_ADDRESS", "JAX listens on all addresses by itself"},
    NeverSet{"SRUN_CPUS_PER_TASK", "is srun's, and must be set before srun; rollcall warns instead"},
    NeverSet{"SLURM_*", "are Slurm's, and programs rely on them"},
    NeverSet{"LD_LIBRARY_PATH", "is set by module systems"},
};

/// Returns the row of `name`, or null.
[[nodiscard]] constexpr const Variable* find_variable(std::string_view name) {
  for (const Variable& variable : kVariables) {
    if (variable.name == name) {
      return &variable;
    }
  }
  return nullptr;
}

}  // namespace rollcall::env
