#include <array>

#include "runtime/contract/backends.h"
#include "trainer/config/settings_groups.h"

namespace rollcall::config {
namespace {

using settings::Kind;
using settings::Setting;

constexpr std::array kParallelSettings{
    Setting{"parallel", Kind::Choice, "ddp", "ddp|fsdp|none",
            "How ranks share the work. ddp: each rank has the model. fsdp: each rank has a part of it. none: "
            "this process trains alone",
            "Parallel"}
        .common(),
    Setting{"elastic", Kind::Switch, "false", "on|off",
            "Continue in the same processes if ranks are lost or join. This needs rollcall run. The state comes "
            "from memory (ddp, or fsdp with --replicate-to), otherwise from the newest checkpoint",
            "Parallel"},
    Setting{"replicate-to", Kind::Choice, "none", "none|neighbour",
            "Where each rank keeps a replica of its shard. neighbour: on a rank of another node, so that a lost "
            "rank or node costs only the steps since the last replica. This needs --elastic, --parallel=fsdp, "
            "and host memory of four times the shard of model and optimizer state",
            "Parallel"},
    Setting{"replicate-steps", Kind::Integer, "10", "N", "Steps between two replicas of --replicate-to", "Parallel", "",
            1, kMost},
    Setting{"elastic-exact", Kind::Integer, "0", "N",
            "Compute the same bits as N ranks do, with any number of ranks. Ranks may join and leave at any "
            "time. This needs --parallel=ddp. 0: do not",
            "Parallel", "", 0, 1e6},
    Setting{"elastic-exact-threads", Kind::Integer, "1", "N",
            "CPU threads of each rank with --elastic-exact. OMP_NUM_THREADS does not count then. Another number "
            "changes the order of additions, and so the bits",
            "Parallel", "", 1, 4096},
    Setting{"gradient-compression", Kind::Choice, "none", "none|bf16|fp16",
            "ddp: type in which gradients are sent. bf16 and fp16 halve the traffic. fsdp has --reduce-dtype",
            "Parallel"},
    Setting{"find-unused-parameters", Kind::Switch, "false", "on|off",
            "ddp: allow parameters on which a step's loss does not depend. This searches the graph of each step",
            "Parallel"},
    Setting{"static-graph", Kind::Switch, "false", "on|off",
            "ddp: assume that every step uses the same parameters in the same order", "Parallel"},
    Setting{"broadcast-buffers", Kind::Switch, "true", "on|off",
            "ddp: send rank 0's batch norm statistics to all ranks before each step. off: only before validation "
            "and checkpoints",
            "Parallel"},
    Setting{"first-bucket", Kind::Number, "1", "MIB",
            "ddp: size of the first bucket of gradients. A small one lets communication start early", "Parallel", "",
            0.001, 1e5},
    Setting{"bucket", Kind::Number, "25", "MIB",
            "ddp: size of further buckets of gradients. Larger ones use networks better and start later", "Parallel",
            "", 0.001, 1e5},
    Setting{"shard-degree", Kind::Integer, "0", "N",
            "fsdp: consecutive ranks that share one copy of the model. 0: all ranks that --replicate-degree "
            "leaves",
            "Parallel", "", 0, 1e6},
    Setting{"replicate-degree", Kind::Integer, "0", "N",
            "fsdp: number of sharded copies of the model. With ddp each rank has a whole copy. 0: what "
            "--shard-degree leaves",
            "Parallel", "", 0, 1e6},
    Setting{"reshard-after-forward", Kind::Integer, "on", "on|off|N",
            "fsdp: free the parameters of a block between forward and backward, to save memory. off: keep them. "
            "N: keep them sharded among N consecutive ranks, such as those of a node",
            "Parallel", "on|off", 2, 1e6},
    Setting{"param-dtype", Kind::Choice, "fp32", "fp32|bf16",
            "fsdp: type in which parameters are sent and used. The optimizer's copy and batch norms stay fp32",
            "Parallel"},
    Setting{"reduce-dtype", Kind::Choice, "fp32", "fp32|bf16|fp16",
            "fsdp: type in which gradients are sent. They are added up in fp32", "Parallel"},
    Setting{"accumulate", Kind::Choice, "whole", "whole|shards",
            "fsdp: how --grad-accumulation adds gradients up. whole: on every rank, and reduces them once. "
            "shards: reduces those of each micro-batch into the shards, with 1/ranks of the memory and N times "
            "the traffic",
            "Parallel"},
    Setting{"cpu-offload", Kind::Switch, "false", "on|off",
            "fsdp: keep shards, gradients and optimizer state in main memory. They are updated there. This saves "
            "memory of GPUs, not of CPUs",
            "Parallel"},
    Setting{"sync-bn", Kind::Switch, "false", "on|off",
            "Normalise batch norms with the batches of all ranks. This is for small batches per rank", "Parallel"},
    Setting{"device", Kind::Text, "auto", "auto|cpu|cuda|NAME",
            "Device on which the model computes. auto: the GPUs of the task if rollcall was built for them, "
            "otherwise its CPUs. NAME: a device of the plugin rollcall_NAME.so",
            "Parallel"}
        .common(),
    Setting{"tf32", Kind::Switch, "true", "on|off",
            "Let GPUs multiply float32 with 10 bits of mantissa (TF32). This is several times as fast. off: 23 "
            "bits",
            "Parallel"},
    Setting{"deterministic", Kind::Switch, "false", "on|off",
            "Let GPUs compute the same bits each time. A resumed training is then equal to an uninterrupted one "
            "to the last bit. cuDNN does not try which algorithm is the fastest",
            "Parallel"},
    Setting{"cuda-graph", Kind::Choice, "auto", "auto|on|off",
            "Launch a step on GPUs as one CUDA graph instead of single kernels. It is captured after 11 "
            "steps. This helps small batches. on: an error if it is not possible. auto: off, until it was "
            "measured on hardware",
            "Parallel"},
    Setting{"own-kernels", Kind::List, "auto", "auto|on|off|PART,...",
            "Use rollcall's own GPU kernels for batch norms, uint8 images and compressed gradients. They pass over "
            "memory less often. off: LibTorch's operators. auto: off, until it was measured on hardware. PART: the "
            "kernels with these parts alone, to measure each: basic (none), residual-gradient, relu-mask, stem-pool, "
            "merge-at-once, reverse-order, weights-at-once",
            "Parallel", "auto|on|off"},
    Setting{"backend", Kind::Choice, "auto", kBackendNames,
            "Communication backend. docs/user/backends.md compares them. auto: gloo on CPUs, nccl on GPUs. ucx: "
            "shared memory, TCP and InfiniBand. mpi: under srun --mpi=pmix or mpirun",
            "Parallel"}
        .common(),
    Setting{"collective-timeout", Kind::Number, "600", "SECONDS",
            "Longest time of a collective. After that the run ends with the names of the ranks that did not take "
            "part. The same holds for a GPU that does not respond",
            "Parallel", "", 1, 1e6},

};

}  // namespace

settings::Table parallel_settings() { return kParallelSettings; }

}  // namespace rollcall::config
