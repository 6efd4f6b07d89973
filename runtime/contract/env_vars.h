#pragma once

#include <array>
#include <string_view>

namespace rollcall::env {

// Names that the code uses more than once. The table below says what each means.
inline constexpr std::string_view kMarker = "ROLLCALL_SET";
inline constexpr std::string_view kStep = "ROLLCALL_STEP";
inline constexpr std::string_view kSiteConfig = "ROLLCALL_SITE_CONFIG";

inline constexpr std::string_view kRank = "RANK";
inline constexpr std::string_view kWorldSize = "WORLD_SIZE";
inline constexpr std::string_view kLocalRank = "LOCAL_RANK";
inline constexpr std::string_view kLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr std::string_view kGroupRank = "GROUP_RANK";
inline constexpr std::string_view kNodeRank = "NODE_RANK";
inline constexpr std::string_view kMasterAddr = "MASTER_ADDR";
inline constexpr std::string_view kMasterPort = "MASTER_PORT";

inline constexpr std::string_view kGlooInterface = "GLOO_SOCKET_IFNAME";
inline constexpr std::string_view kTensorPipeInterface = "TP_SOCKET_IFNAME";
inline constexpr std::string_view kNcclInterface = "NCCL_SOCKET_IFNAME";
inline constexpr std::string_view kUcxDevices = "UCX_NET_DEVICES";

inline constexpr std::string_view kOmpThreads = "OMP_NUM_THREADS";
inline constexpr std::string_view kCudaVisible = "CUDA_VISIBLE_DEVICES";
inline constexpr std::string_view kPath = "PATH";
inline constexpr std::string_view kVirtualEnv = "VIRTUAL_ENV";

inline constexpr std::string_view kSlurmJobId = "SLURM_JOB_ID";
inline constexpr std::string_view kSlurmStepId = "SLURM_STEP_ID";
inline constexpr std::string_view kSlurmProcId = "SLURM_PROCID";
inline constexpr std::string_view kSlurmLocalId = "SLURM_LOCALID";
inline constexpr std::string_view kSlurmNodeId = "SLURM_NODEID";
inline constexpr std::string_view kSlurmStepTasks = "SLURM_STEP_NUM_TASKS";
inline constexpr std::string_view kSlurmStepNodes = "SLURM_STEP_NUM_NODES";
inline constexpr std::string_view kSlurmStepNodeList = "SLURM_STEP_NODELIST";
inline constexpr std::string_view kSlurmStepTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";
inline constexpr std::string_view kSlurmReservedPorts = "SLURM_STEP_RESV_PORTS";
inline constexpr std::string_view kSlurmNodeName = "SLURMD_NODENAME";
inline constexpr std::string_view kSlurmDistribution = "SLURM_DISTRIBUTION";
inline constexpr std::string_view kSlurmRestartCount = "SLURM_RESTART_COUNT";
inline constexpr std::string_view kSlurmCpusPerTask = "SLURM_CPUS_PER_TASK";
inline constexpr std::string_view kSlurmCpusOnNode = "SLURM_CPUS_ON_NODE";
inline constexpr std::string_view kSlurmStepGpus = "SLURM_STEP_GPUS";
inline constexpr std::string_view kSlurmJobGpus = "SLURM_JOB_GPUS";
inline constexpr std::string_view kPmixNamespace = "PMIX_NAMESPACE";
inline constexpr std::string_view kPmixRank = "PMIX_RANK";
inline constexpr std::string_view kTorchElasticRunId = "TORCHELASTIC_RUN_ID";

enum class Use { Read, Written, ReadAndWritten };

/// One environment variable of the contract between rollcall and the world.
struct Variable {
  std::string_view name;
  Use use = Use::Read;
  std::string_view used_by;  ///< the part of rollcall, then whom the variable belongs to
  std::string_view meaning;  ///< one clause, no full stop
};

/// Every variable that rollcall reads or writes. Not listed: ROLLCALL_<SETTING>, which follow from the settings tables,
/// and the folders that ${...} in paths may name (runtime/settings).
inline constexpr std::array kVariables{
    Variable{kMarker, Use::ReadAndWritten, "resolve",
             "variables that rollcall set: NAME:HASH,... with the 32-bit FNV-1a of the value; a value changed since is "
             "the user's"},
    Variable{kStep, Use::ReadAndWritten, "resolve", "the step that these values were made for: JOB.STEP"},
    Variable{kSiteConfig, Use::Read, "settings", "site profile to read instead of /etc/rollcall/site.toml"},
    Variable{"ROLLCALL_DEPS", Use::Read, "scripts/setup", "folder of LibTorch and the tests' Python"},

    Variable{kRank, Use::ReadAndWritten, "resolve; torch", "rank of this task in the step"},
    Variable{kWorldSize, Use::ReadAndWritten, "resolve; torch", "number of tasks of the step"},
    Variable{kLocalRank, Use::ReadAndWritten, "resolve; torch", "rank of this task on its node"},
    Variable{kLocalWorldSize, Use::ReadAndWritten, "resolve; torch", "number of tasks of the step on this node"},
    Variable{kGroupRank, Use::ReadAndWritten, "resolve; torchelastic", "index of this node in the step"},
    Variable{kNodeRank, Use::ReadAndWritten, "resolve; Lightning", "index of this node in the step"},
    Variable{kMasterAddr, Use::ReadAndWritten, "resolve, rendezvous; torch",
             "host of rank 0, under a name that all nodes reach"},
    Variable{kMasterPort, Use::ReadAndWritten, "resolve, rendezvous; torch", "TCP port at which rank 0 listens"},
    Variable{kTorchElasticRunId, Use::Read, "bootstrap; torchrun",
             "set where torchrun started this process: its ranks are true"},

    Variable{kGlooInterface, Use::ReadAndWritten, "resolve; Gloo", "network interface; concrete names only"},
    Variable{kTensorPipeInterface, Use::ReadAndWritten, "resolve; TensorPipe",
             "network interface; concrete names only"},
    Variable{kNcclInterface, Use::ReadAndWritten, "resolve; NCCL", "network interfaces or prefixes of names"},
    Variable{kUcxDevices, Use::ReadAndWritten, "resolve; UCX", "network devices"},

    Variable{kOmpThreads, Use::ReadAndWritten, "resolve; OpenMP, torch", "threads of one task"},
    Variable{kCudaVisible, Use::ReadAndWritten, "resolve; CUDA", "GPUs that this task sees"},
    Variable{kPath, Use::ReadAndWritten, "resolve; shells", "setting venv puts its bin folder in front"},
    Variable{kVirtualEnv, Use::ReadAndWritten, "resolve; Python", "root of the active virtual environment"},

    Variable{"TORCH_HOME", Use::ReadAndWritten, "resolve; torch", "downloaded models; below cache.shared"},
    Variable{"HF_HOME", Use::ReadAndWritten, "resolve; Hugging Face", "downloaded models and data; below cache.shared"},
    Variable{"XDG_CACHE_HOME", Use::ReadAndWritten, "resolve; many", "other caches; below cache.shared"},
    Variable{"PIP_CACHE_DIR", Use::ReadAndWritten, "resolve; pip", "downloaded wheels; below cache.shared"},
    Variable{"TRITON_CACHE_DIR", Use::ReadAndWritten, "resolve; Triton", "compiled kernels; below cache.local"},
    Variable{"TORCHINDUCTOR_CACHE_DIR", Use::ReadAndWritten, "resolve; torch", "compiled graphs; below cache.local"},
    Variable{"TORCH_EXTENSIONS_DIR", Use::ReadAndWritten, "resolve; torch", "compiled extensions; below cache.local"},

    Variable{"TORCH_DISTRIBUTED_DEBUG", Use::ReadAndWritten, "resolve; torch", "DETAIL with setting debug"},
    Variable{"TORCH_CPP_LOG_LEVEL", Use::ReadAndWritten, "resolve; torch", "INFO with setting debug"},
    Variable{"TORCH_SHOW_CPP_STACKTRACES", Use::ReadAndWritten, "resolve; torch", "1 with setting debug"},
    Variable{"NCCL_DEBUG", Use::ReadAndWritten, "resolve; NCCL", "INFO with setting debug"},

    Variable{kSlurmJobId, Use::Read, "bootstrap; Slurm", "the job (of a het job: its first component)"},
    Variable{kSlurmStepId, Use::Read, "bootstrap; Slurm",
             "the step; special numbers for batch, interactive and extern steps"},
    Variable{kSlurmProcId, Use::Read, "bootstrap; Slurm", "rank of this task in the step"},
    Variable{kSlurmLocalId, Use::Read, "bootstrap; Slurm", "rank of this task on its node"},
    Variable{kSlurmNodeId, Use::Read, "bootstrap; Slurm", "index of this node in the step"},
    Variable{kSlurmStepTasks, Use::Read, "bootstrap; Slurm", "number of tasks of the step"},
    Variable{kSlurmStepNodes, Use::Read, "bootstrap; Slurm", "number of nodes of the step"},
    Variable{kSlurmStepNodeList, Use::Read, "bootstrap; Slurm", "nodes of the step, compressed"},
    Variable{kSlurmStepTasksPerNode, Use::Read, "bootstrap; Slurm", "tasks on each node of the step, compressed"},
    Variable{kSlurmReservedPorts, Use::Read, "bootstrap; Slurm", "ports that no other step has (MpiParams=ports=)"},
    Variable{kSlurmNodeName, Use::Read, "bootstrap; Slurm", "this node, as Slurm names it"},
    Variable{kSlurmDistribution, Use::Read, "bootstrap; Slurm", "how tasks are placed; arbitrary hides rank 0's node"},
    Variable{kSlurmRestartCount, Use::Read, "bootstrap; Slurm", "how often the job was requeued"},
    Variable{kSlurmCpusPerTask, Use::Read, "resolve; Slurm", "CPUs of one task, where asked for"},
    Variable{kSlurmCpusOnNode, Use::Read, "resolve; Slurm", "CPUs of the step on this node"},
    Variable{kSlurmStepGpus, Use::Read, "resolve; Slurm", "GPUs of the step (in a task: perhaps only its own)"},
    Variable{kSlurmJobGpus, Use::Read, "resolve; Slurm", "GPUs of the job on this node"},
    Variable{kPmixNamespace, Use::Read, "bootstrap, rendezvous; PMIx", "set where a PMIx server started this task"},
    Variable{kPmixRank, Use::Read, "bootstrap; PMIx", "rank of this task, a cross-check"},
};

/// The row of `name`, or null.
[[nodiscard]] constexpr const Variable* find_variable(std::string_view name) {
  for (const Variable& variable : kVariables) {
    if (variable.name == name) {
      return &variable;
    }
  }
  return nullptr;
}

}  // namespace rollcall::env
