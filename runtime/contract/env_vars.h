#pragma once

#include <string_view>

namespace rollcall::env {

// Names that the code uses more than once. env_table.h explains each of them.
inline constexpr std::string_view kMarker = "ROLLCALL_SET";
/// The value that the plugin in srun gives to MASTER_ADDR and others until the plugin on the node replaces it. It
/// resolves nowhere (RFC 6761).
inline constexpr std::string_view kPluginMissing = "rollcall-plugin-missing-on-this-node.invalid";
inline constexpr std::string_view kStep = "ROLLCALL_STEP";
inline constexpr std::string_view kSecretFd = "ROLLCALL_SECRET_FD";
inline constexpr std::string_view kSiteConfig = "ROLLCALL_SITE_CONFIG";

inline constexpr std::string_view kRank = "RANK";
inline constexpr std::string_view kWorldSize = "WORLD_SIZE";
inline constexpr std::string_view kLocalRank = "LOCAL_RANK";
inline constexpr std::string_view kLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr std::string_view kGroupRank = "GROUP_RANK";
inline constexpr std::string_view kNodeRank = "NODE_RANK";
inline constexpr std::string_view kGroupWorldSize = "GROUP_WORLD_SIZE";
inline constexpr std::string_view kRoleRank = "ROLE_RANK";
inline constexpr std::string_view kRoleWorldSize = "ROLE_WORLD_SIZE";
inline constexpr std::string_view kRoleName = "ROLE_NAME";
inline constexpr std::string_view kLocalSize = "LOCAL_SIZE";
inline constexpr std::string_view kCrossRank = "CROSS_RANK";
inline constexpr std::string_view kCrossSize = "CROSS_SIZE";
inline constexpr std::string_view kRestartCount = "TORCHELASTIC_RESTART_COUNT";
inline constexpr std::string_view kMasterAddr = "MASTER_ADDR";
inline constexpr std::string_view kMasterPort = "MASTER_PORT";

inline constexpr std::string_view kTorchrunNodes = "PET_NNODES";

inline constexpr std::string_view kJaxCoordinator = "JAX_COORDINATOR_ADDRESS";
inline constexpr std::string_view kJaxNumProcesses = "JAX_NUM_PROCESSES";
inline constexpr std::string_view kJaxProcessId = "JAX_PROCESS_ID";
inline constexpr std::string_view kJaxLocalDevices = "JAX_LOCAL_DEVICE_IDS";

inline constexpr std::string_view kGlooInterface = "GLOO_SOCKET_IFNAME";

inline constexpr std::string_view kNcclNet = "NCCL_NET";

inline constexpr std::string_view kOmpThreads = "OMP_NUM_THREADS";
inline constexpr std::string_view kCudaVisible = "CUDA_VISIBLE_DEVICES";
inline constexpr std::string_view kPath = "PATH";
inline constexpr std::string_view kVirtualEnv = "VIRTUAL_ENV";

inline constexpr std::string_view kSlurmJobId = "SLURM_JOB_ID";
inline constexpr std::string_view kSlurmArrayJobId = "SLURM_ARRAY_JOB_ID";
inline constexpr std::string_view kSlurmArrayTaskId = "SLURM_ARRAY_TASK_ID";
inline constexpr std::string_view kSlurmStepId = "SLURM_STEP_ID";
inline constexpr std::string_view kSlurmProcId = "SLURM_PROCID";
inline constexpr std::string_view kSlurmLocalId = "SLURM_LOCALID";
inline constexpr std::string_view kSlurmNodeId = "SLURM_NODEID";
inline constexpr std::string_view kSlurmStepTasks = "SLURM_STEP_NUM_TASKS";
inline constexpr std::string_view kSlurmStepNodes = "SLURM_STEP_NUM_NODES";
inline constexpr std::string_view kSlurmStepNodeList = "SLURM_STEP_NODELIST";
inline constexpr std::string_view kSlurmStepTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";
inline constexpr std::string_view kSlurmNodeName = "SLURMD_NODENAME";
inline constexpr std::string_view kSlurmHetSize = "SLURM_HET_SIZE";
inline constexpr std::string_view kSlurmHetNodeList = "SLURM_JOB_NODELIST_HET_GROUP_";  // + the component's number
inline constexpr std::string_view kSlurmRestartCount = "SLURM_RESTART_COUNT";
inline constexpr std::string_view kSlurmCpusPerTask = "SLURM_CPUS_PER_TASK";
inline constexpr std::string_view kSlurmClusterName = "SLURM_CLUSTER_NAME";
inline constexpr std::string_view kSystemName = "SYSTEMNAME";
inline constexpr std::string_view kSlurmCpusOnNode = "SLURM_CPUS_ON_NODE";
inline constexpr std::string_view kSlurmStepGpus = "SLURM_STEP_GPUS";
inline constexpr std::string_view kSlurmJobGpus = "SLURM_JOB_GPUS";
inline constexpr std::string_view kSlurmGpusOnNode = "SLURM_GPUS_ON_NODE";
inline constexpr std::string_view kPmixNamespace = "PMIX_NAMESPACE";
inline constexpr std::string_view kPmixRank = "PMIX_RANK";
inline constexpr std::string_view kPmixGds = "PMIX_MCA_gds";
inline constexpr std::string_view kOmpiRank = "OMPI_COMM_WORLD_RANK";
inline constexpr std::string_view kPmiJobId = "PMI_JOBID";
inline constexpr std::string_view kHydraLocalRank = "MPI_LOCALRANKID";
inline constexpr std::string_view kTorchElasticRunId = "TORCHELASTIC_RUN_ID";
inline constexpr std::string_view kGeneration = "ROLLCALL_GENERATION";
inline constexpr std::string_view kRun = "ROLLCALL_RUN";
inline constexpr std::string_view kAgentLink = "ROLLCALL_AGENT_LINK";
inline constexpr std::string_view kStandby = "ROLLCALL_STANDBY";
inline constexpr std::string_view kSlurmJobEndTime = "SLURM_JOB_END_TIME";

/// Slurm's variable that says whether srun ends a step with its first failing task.
inline constexpr std::string_view kKillOnBadExit = "SLURM_KILL_BAD_EXIT";

// With `rollcall install --user` the nodes have no plugin. The plugin in srun then names a task prolog, which is
// `rollcall` under another name, and passes the option to it in these variables. srun exports SLURM_* even with
// --export=NONE. The prolog removes all three from the task's environment.

/// Slurm's variable with the program that runs before each task.
inline constexpr std::string_view kTaskProlog = "SLURM_TASK_PROLOG";
/// The argument of --ddp, "" where it has none. Unset: --ddp was not given, or is off.
inline constexpr std::string_view kForwardedOption = "SLURM_ROLLCALL_DDP";
/// The user's own SLURM_TASK_PROLOG, which runs first.
inline constexpr std::string_view kUserTaskProlog = "SLURM_ROLLCALL_TASK_PROLOG";

/// A step's secret between srun and slurmstepd, which removes it from the step's environment. srun exports SLURM_* even
/// with --export=NONE.
inline constexpr std::string_view kStepSecret = "SLURM_ROLLCALL_STEP_SECRET";
/// Slurm's variable that a task prolog leaves in the task's environment.
inline constexpr std::string_view kScriptContext = "SLURM_SCRIPT_CONTEXT";

/// The file name under which `rollcall` runs as a task prolog.
inline constexpr std::string_view kTaskPrologName = "rollcall-task-prolog";

}  // namespace rollcall::env
