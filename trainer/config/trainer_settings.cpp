#include <array>

#include "runtime/contract/backends.h"
#include "runtime/settings/choices.h"
#include "trainer/config/options.h"
#include "trainer/model/resnet_shapes.h"
#include "trainer/optim/optimizer_kind.h"

namespace rollcall::config {
namespace {

using settings::Kind;
using settings::Setting;

constexpr double kMost = 1e15;
constexpr std::string_view kOptimizers = settings::kChoicesOf<optim::kOptimizers>;

constexpr std::array kTrainerTable{
    Setting{"data", Kind::Path, "fake", "PATH|fake",
            "images: a class-per-folder tree, a packed file (rollcall-pack) or a folder of WebDataset tar shards, with "
            "train and val in it or to be split 85/10/5; fake: synthetic images",
            "Data", "fake"},
    Setting{"index-dir", Kind::Path, "", "DIR|none",
            "where the list of the data's images is kept for the next run; it is made again once a folder or shard has "
            "changed (default: $SCRATCH/rollcall/index); none: nowhere",
            "Data", "none"},
    Setting{"train-num-workers", Kind::Integer, "auto", "N|auto",
            "threads that load training images; 0: the main thread loads them; auto: the task's CPUs beyond those that "
            "compute, at least 1, and more where the first steps wait for data",
            "Data", "auto", 0, 1024},
    Setting{"valid-num-workers", Kind::Integer, "auto", "N|auto",
            "threads that load validation images; auto: the task's CPUs beyond those that compute, at least 1", "Data",
            "auto", 0, 1024},
    Setting{"prefetch", Kind::Integer, "2", "N", "batches that each worker may be ahead", "Data", "", 1, 1024},
    Setting{"fake-size", Kind::Integer, "1000", "N", "data=fake: synthetic images, before the split 85/10/5", "Data",
            "", 20, 1e9},
    Setting{"image-size", Kind::Integer, "224", "PIXELS", "height and width of the images that the model sees", "Data",
            "", 8, 8192},
    Setting{"valid-resize", Kind::Integer, "0", "PIXELS",
            "shorter side of a validation image before the centre crop; 0: image-size * 256 / 224", "Data", "", 0,
            16384},
    Setting{"crop-scale-min", Kind::Number, "0.08", "FRACTION", "smallest area of RandomResizedCrop", "Data", "", 1e-6,
            1},
    Setting{"crop-scale-max", Kind::Number, "1", "FRACTION", "largest area of RandomResizedCrop", "Data", "", 1e-6, 1},
    Setting{"crop-ratio-min", Kind::Number, "0.75", "RATIO", "smallest width/height of RandomResizedCrop", "Data", "",
            0.01, 100},
    Setting{"crop-ratio-max", Kind::Number, "1.3333333333333333", "RATIO", "largest width/height of RandomResizedCrop",
            "Data", "", 0.01, 100},
    Setting{"flip", Kind::Number, "0.5", "PROBABILITY", "probability of a horizontal flip in training", "Data", "", 0,
            1},
    Setting{"vertical-flip", Kind::Number, "0", "PROBABILITY", "probability of a vertical flip in training", "Data", "",
            0, 1},
    Setting{"image-dtype", Kind::Choice, "float32", "float32|bfloat16|uint8",
            "type in which images are prefetched and copied: bfloat16 takes half the memory; uint8 a quarter, and is "
            "normalised where the model computes",
            "Data"},
    Setting{"last-batch", Kind::Choice, "drop", "drop|pad",
            "what does not fill a global batch of training: leave it out, or fill it from the epoch's beginning as "
            "torch's DistributedSampler does",
            "Data"},
    Setting{"shuffle-window", Kind::Integer, "0", "N",
            "read N consecutive images at about the same time, and mix 64 such windows (for packed files on parallel "
            "file systems); 0: shuffle freely",
            "Data", "", 0, 1e9},
    Setting{"exif-orientation", Kind::Switch, "false", "on|off",
            "turn pictures as their EXIF orientation says; torchvision does not", "Data"},
    Setting{"dct-scaling", Kind::Switch, "false", "on|off", "decode large crops at half size: faster, but other pixels",
            "Data"},
    Setting{"bad-samples", Kind::Choice, "skip", "skip|fail",
            "what to do with an image that cannot be decoded: leave it out, or end the run", "Data"},
    Setting{"max-bad-samples", Kind::Number, "0.05", "X",
            "bad-samples=skip: the run ends once more than this share of an epoch's images could not be read", "Data",
            "", 0, 1},

    Setting{"auto-augment", Kind::Choice, "none", "none|randaugment|trivial",
            "random operations on each training image: RandAugment or TrivialAugmentWide", "Augmentation"},
    Setting{"randaugment-ops", Kind::Integer, "2", "N", "auto-augment=randaugment: operations for an image",
            "Augmentation", "", 0, 10},
    Setting{"randaugment-magnitude", Kind::Integer, "9", "N", "auto-augment=randaugment: strength of the operations",
            "Augmentation", "", 0, 30},
    Setting{"brightness", Kind::Number, "0", "X", "colour jitter: factor drawn from 1 - X to 1 + X", "Augmentation", "",
            0, 100},
    Setting{"contrast", Kind::Number, "0", "X", "colour jitter: factor drawn from 1 - X to 1 + X", "Augmentation", "",
            0, 100},
    Setting{"saturation", Kind::Number, "0", "X", "colour jitter: factor drawn from 1 - X to 1 + X", "Augmentation", "",
            0, 100},
    Setting{"hue", Kind::Number, "0", "TURNS", "colour jitter: shift drawn from -TURNS to TURNS", "Augmentation", "", 0,
            0.5},
    Setting{"random-erase", Kind::Number, "0", "PROBABILITY", "probability that a box of the image is erased",
            "Augmentation", "", 0, 1},
    Setting{"random-erase-value", Kind::Choice, "zero", "zero|random", "what random-erase fills its box with",
            "Augmentation"},
    Setting{"mixup", Kind::Number, "0", "ALPHA",
            "mix the images of a batch, weights from Beta(ALPHA, ALPHA); 0: do not", "Augmentation", "", 0, 100},
    Setting{"cutmix", Kind::Number, "0", "ALPHA",
            "paste boxes of other images of the batch, sizes from Beta(ALPHA, ALPHA); 0: do not; with mixup, one of "
            "them by "
            "turns at random",
            "Augmentation", "", 0, 100},

    Setting{"model", Kind::Choice, "resnet50", "NAME", "network to train; resnet20 is for images of some 32 pixels",
            "Model", settings::kChoicesOf<model::kResNets>},
    Setting{"num-classes", Kind::Integer, "0", "N", "outputs of the model; 0: the classes of the data (fake: 1000)",
            "Model", "", 0, 1e6},
    Setting{"zero-init-residual", Kind::Switch, "false", "on|off",
            "start every residual branch at zero (Goyal et al. 2017), which helps large batches", "Model"},
    Setting{"channels-last", Kind::Switch, "true", "on|off", "keep images and weights in channels-last memory format",
            "Model"},

    Setting{"epochs", Kind::Integer, "120", "N", "passes over the training data", "Training", "", 1, 1e9},
    Setting{"max-steps", Kind::Integer, "0", "N",
            "stop after this many steps in all, and let lr-schedule=cosine end there; 0: after the epochs", "Training",
            "", 0, kMost},
    Setting{"batch-size", Kind::Integer, "64", "N", "images per rank and step, or per micro-batch", "Training", "", 1,
            1e6},
    Setting{"grad-accumulation", Kind::Integer, "1", "N",
            "micro-batches whose gradients are added up, and sent once, before a step of the optimizer. A step is "
            "batch-size x N images per rank. If it is not given, a training that resumes with another number of ranks "
            "takes the N that keeps the images of a step",
            "Training", "", 1, 1e6},
    Setting{"seed", Kind::Integer, "0", "N",
            "decides the initial weights, the order of the images and their augmentation", "Training", "", 0, kMost},
    Setting{"optimizer", Kind::Choice, "adamw", kOptimizers, "optimizer", "Training"},
    Setting{"lr", Kind::Number, "3e-4", "RATE", "base learning rate, for one rank and micro-batch", "Training", "", 0,
            1e6},
    Setting{"lr-scaling", Kind::Choice, "linear", "linear|sqrt|none",
            "how the learning rate grows with the number of ranks x grad-accumulation", "Training"},
    Setting{"lr-schedule", Kind::Choice, "none", "none|cosine|step", "course of the learning rate after warm-up",
            "Training"},
    Setting{"lr-step-epochs", Kind::Number, "30", "EPOCHS", "lr-schedule=step: epochs between two drops", "Training",
            "", 1e-6, 1e9},
    Setting{"lr-step-factor", Kind::Number, "0.1", "FACTOR", "lr-schedule=step: factor of each drop", "Training", "", 0,
            1},
    Setting{"warmup-epochs", Kind::Number, "0", "EPOCHS",
            "epochs over which the learning rate grows linearly to its value", "Training", "", 0, 1e9},
    Setting{"scale-optim-params", Kind::Switch, "false", "on|off",
            "scale AdamW's lr, betas and eps with the number of ranks x grad-accumulation by the square-root rule "
            "(arXiv 2205.10287)",
            "Training"},
    Setting{"momentum", Kind::Number, "0.9", "FACTOR", "SGD: momentum", "Training", "", 0, 1},
    Setting{"nesterov", Kind::Switch, "false", "on|off", "SGD: Nesterov momentum", "Training"},
    Setting{"weight-decay", Kind::Number, "0.01", "FACTOR", "weight decay; not applied to batch norms and biases",
            "Training", "", 0, 1e6},
    Setting{"adam-beta1", Kind::Number, "0.9", "FACTOR", "AdamW: decay of the first moment", "Training", "", 0, 1},
    Setting{"adam-beta2", Kind::Number, "0.999", "FACTOR", "AdamW: decay of the second moment", "Training", "", 0, 1},
    Setting{"adam-eps", Kind::Number, "1e-8", "EPSILON", "AdamW: added to the denominator", "Training", "", 0, 1},
    Setting{"clip-grad-norm", Kind::Number, "0", "NORM",
            "scale gradients so that their norm over all parameters is at most this; 0: do not", "Training", "", 0,
            1e9},
    Setting{"max-skipped-steps", Kind::Integer, "10", "N",
            "a step whose gradients are not finite is skipped; this many in a row end the training; 0: no limit. "
            "precision=fp16 has a rule of its own",
            "Training", "", 0, kMost},
    Setting{
        "precision", Kind::Choice, "fp32", "fp32|bf16|fp16",
        "type in which convolutions and matrix products compute; weights, their updates, statistics and the loss stay "
        "fp32; fp16 also scales the loss",
        "Training"},
    Setting{"label-smoothing", Kind::Number, "0", "FACTOR", "label smoothing of the loss", "Training", "", 0, 1},

    Setting{"parallel", Kind::Choice, "ddp", "ddp|fsdp|none",
            "how ranks share the work; ddp: each has the model; fsdp: each has a part of it; none: this process trains "
            "alone",
            "Parallel"},
    Setting{"elastic", Kind::Switch, "false", "on|off",
            "under `rollcall run`: if ranks are lost or join, the others continue in the same process, from their "
            "memory (ddp, and fsdp with replicate-to) or the newest checkpoint",
            "Parallel"},
    Setting{"replicate-to", Kind::Choice, "none", "none|neighbour",
            "with elastic and parallel=fsdp: during training each rank copies its part of the model and of the "
            "optimizer's state to a rank of another node, so that a lost rank or node costs only the steps since then; "
            "takes host memory of four times that part",
            "Parallel"},
    Setting{"replicate-steps", Kind::Integer, "10", "N", "steps from one such copy to the next", "Parallel", "", 1,
            kMost},
    Setting{"elastic-exact", Kind::Integer, "0", "N",
            "ddp: the result is that of N ranks, bit for bit, for any number of ranks and whenever they join or leave; "
            "0: do not",
            "Parallel", "", 0, 1e6},
    Setting{"elastic-exact-threads", Kind::Integer, "1", "N",
            "elastic-exact: threads that each rank computes with on CPUs, whatever OMP_NUM_THREADS is; with another "
            "number kernels add in another order",
            "Parallel", "", 1, 4096},
    Setting{"gradient-compression", Kind::Choice, "none", "none|bf16|fp16",
            "ddp: type in which gradients are sent, half the size (fsdp: reduce-dtype)", "Parallel"},
    Setting{"find-unused-parameters", Kind::Switch, "false", "on|off",
            "ddp: allow parameters that a step's loss does not depend on; costs a search of each step's graph",
            "Parallel"},
    Setting{"static-graph", Kind::Switch, "false", "on|off",
            "ddp: every step uses the same parameters in the same order as the first one", "Parallel"},
    Setting{"broadcast-buffers", Kind::Switch, "true", "on|off",
            "ddp: give all ranks rank 0's batch norm statistics before each step; off: only before validation and "
            "checkpoints",
            "Parallel"},
    Setting{"first-bucket", Kind::Number, "1", "MIB",
            "ddp: size of the first bucket of gradients; small, so that communication starts early", "Parallel", "",
            0.001, 1e5},
    Setting{"bucket", Kind::Number, "25", "MIB",
            "ddp: size of further buckets; larger ones use networks better and start later", "Parallel", "", 0.001,
            1e5},
    Setting{"shard-degree", Kind::Integer, "0", "N",
            "fsdp: consecutive ranks that divide one model among them; 0: all that replicate-degree leaves", "Parallel",
            "", 0, 1e6},
    Setting{"replicate-degree", Kind::Integer, "0", "N",
            "fsdp: how many divided copies of the model there are (ddp has one whole copy a rank); 0: what "
            "shard-degree leaves",
            "Parallel", "", 0, 1e6},
    Setting{"reshard-after-forward", Kind::Integer, "on", "on|off|N",
            "fsdp: free the parameters of a block between forward and backward, which saves memory; off: keep them; N: "
            "keep them divided among N consecutive ranks, as those of a node",
            "Parallel", "on|off", 2, 1e6},
    Setting{"param-dtype", Kind::Choice, "fp32", "fp32|bf16",
            "fsdp: type in which parameters are sent and used; the optimizer's copy and batch norms stay fp32",
            "Parallel"},
    Setting{"reduce-dtype", Kind::Choice, "fp32", "fp32|bf16|fp16",
            "fsdp: type in which gradients are sent; they are added up in fp32", "Parallel"},
    Setting{"accumulate", Kind::Choice, "whole", "whole|shards",
            "fsdp with grad-accumulation: add gradients up whole on every rank and reduce them once, or reduce each "
            "micro-batch's into the shards, which takes 1/ranks of the memory and N times the traffic",
            "Parallel"},
    Setting{"cpu-offload", Kind::Switch, "false", "on|off",
            "fsdp: keep shards, their gradients and the optimizer's state in main memory and update them there; saves "
            "memory of GPUs, not of CPUs",
            "Parallel"},
    Setting{"sync-bn", Kind::Switch, "false", "on|off",
            "batch norms normalise with the batches of all ranks together: for small batches per rank", "Parallel"},
    Setting{"device", Kind::Text, "auto", "auto|cpu|cuda|NAME",
            "where the model computes; auto: on the GPUs that the task sees, if rollcall was built for them, else on "
            "CPUs; a name: on the devices of the plugin rollcall_NAME.so",
            "Parallel"},
    Setting{"tf32", Kind::Switch, "true", "on|off",
            "GPUs multiply float32 with 10 bits of mantissa (TF32), several times as fast; off: with all 23",
            "Parallel"},
    Setting{"deterministic", Kind::Switch, "false", "on|off",
            "GPUs compute the same bits each time, so that a resumed training is the uninterrupted one to the last "
            "bit; cuDNN then does not try which algorithm is the fastest",
            "Parallel"},
    Setting{"cuda-graph", Kind::Choice, "auto", "auto|on|off",
            "launch a step on GPUs as two CUDA graphs, captured after 11 steps, instead of single kernels, for small "
            "batches; on: an error if that is not possible; auto: off, until it was measured on hardware",
            "Parallel"},
    Setting{
        "own-kernels", Kind::Switch, "true", "on|off",
        "GPUs compute batch norms with what follows them, images of uint8 and compressed gradients by rollcall's own "
        "kernels, in fewer passes over memory; off: by LibTorch's operators",
        "Parallel"},
    Setting{
        "backend", Kind::Choice, "auto", kBackendNames,
        "communication backend (docs/user/backends.md); auto: gloo on CPUs, nccl on GPUs; ucx: shared memory, TCP and "
        "InfiniBand; mpi: under srun --mpi=pmix or mpirun",
        "Parallel"},
    Setting{"collective-timeout", Kind::Number, "600", "SECONDS",
            "a collective that takes longer is an error, which names the ranks that did not take part; so is a GPU "
            "that does not respond for so long",
            "Parallel", "", 1, 1e6},

    Setting{"run-name", Kind::Text, "", "NAME",
            "name of this training, whose folder is $SCRATCH/rollcall/<run name>, or below ./ where SCRATCH is unset: "
            "one part of a path, without blanks; empty: the job's name, with the number of a job array's element. "
            "Elements that resume from each other need a run-name",
            "Checkpoints"},
    Setting{"checkpoint-dir", Kind::Path, "", "DIR",
            "folder of the checkpoints, of this training alone; empty: checkpoints below the run's folder",
            "Checkpoints"},
    Setting{"lease-timeout", Kind::Number, "60", "SECONDS",
            "how long a run waits for another one that writes to its folder: until that one has ended, or has not "
            "renewed its lease for so long",
            "Checkpoints", "", 0, 1e6},
    Setting{"checkpoint-epochs", Kind::Integer, "1", "N",
            "save after every N epochs; 0: only at the end and on signals", "Checkpoints", "", 0, 1e9},
    Setting{"checkpoint-steps", Kind::Integer, "0", "N", "save also after every N steps; 0: do not", "Checkpoints", "",
            0, kMost},
    Setting{"keep-last", Kind::Integer, "3", "N", "newest checkpoints that are kept", "Checkpoints", "", 1, 1e6},
    Setting{"keep-best", Kind::Integer, "1", "N", "checkpoints of the best validations that are kept besides",
            "Checkpoints", "", 0, 1e6},
    Setting{"keep-every", Kind::Integer, "0", "STEPS", "keep the first checkpoint of every N steps for ever; 0: none",
            "Checkpoints", "", 0, kMost},
    Setting{"checkpoint-mode", Kind::Choice, "async", "async|sync",
            "async: training continues while a copy of its state is written; sync: it waits, and needs no memory for a "
            "copy",
            "Checkpoints"},
    Setting{"checkpoint-stage", Kind::Path, "", "DIR",
            "fast folder of the node (/dev/shm) in which a checkpoint is written first, and then copied to "
            "checkpoint-dir; for ranks of one node; empty: none",
            "Checkpoints"},
    Setting{"checkpoint-overlap", Kind::Choice, "skip", "skip|wait",
            "a save by checkpoint-steps that is due while another is being written: leave it out, or wait",
            "Checkpoints"},
    Setting{
        "checkpoint-read-back", Kind::Choice, "memory", "memory|device",
        "where a checkpoint is read back from before it gets its name; memory: the kernel's, while the device still "
        "writes; device: past the kernel's memory, which takes two to three times as long",
        "Checkpoints"},
    Setting{"checkpoint-retries", Kind::Integer, "2", "N",
            "further tries of a save that failed, after 1, 2, 4 ... seconds", "Checkpoints", "", 0, 100},
    Setting{"checkpoint-failures", Kind::Integer, "3", "N",
            "saves in a row that may fail before training stops; 0: no limit; the last save of a run must succeed",
            "Checkpoints", "", 0, 1e6},
    Setting{"checkpoint-timeout", Kind::Number, "1800", "SECONDS",
            "how long ranks wait in a save for a rank whose file system does not respond, before the save fails",
            "Checkpoints", "", 1, 1e6},
    Setting{"save-before-limit", Kind::Number, "0", "SECONDS",
            "save and end with code 75 so long before the job's time limit; 0: leave that to a signal", "Checkpoints",
            "", 0, 1e6},
    Setting{"resume", Kind::Text, "auto", "auto|continue-with-changes|never|FILE",
            "auto: continue from the newest intact checkpoint if it is of this training; continue-with-changes: also "
            "if settings that define a training have changed; never: start from scratch; FILE: continue from it",
            "Checkpoints", "auto|continue-with-changes|never"},
    Setting{
        "verify", Kind::Choice, "full", "full|metadata",
        "what loading a checkpoint compares with its checksums: everything it reads, or the table of contents alone",
        "Checkpoints"},
    Setting{"init-from", Kind::Text, "", "FILE",
            "start with the weights of this checkpoint, or file of torch.save or safetensors, if there is nothing to "
            "resume; a last layer with another number of classes is initialised anew",
            "Checkpoints"},

    Setting{"valid-epochs", Kind::Integer, "10", "N", "validate after every N epochs and at the end; 0: never",
            "Output", "", 0, 1e9},
    Setting{"run-dir", Kind::Path, "", "DIR", "folder of metrics.jsonl; empty: beside the checkpoints", "Output"},
    Setting{"benchmark-epochs", Kind::Integer, "3", "N",
            "--benchmark-data: passes over the training data; the first of several warms up and is not counted",
            "Output", "", 1, 1e6},
    Setting{"progress", Kind::Choice, "auto", "auto|bar|lines|none",
            "progress display; auto: a bar on a terminal, else lines", "Output"},
    Setting{"log-steps", Kind::Integer, "10", "N", "steps between two progress lines and two records of metrics.jsonl",
            "Output", "", 1, kMost},
    Setting{"rank-seconds", Kind::Number, "auto", "SECONDS|auto",
            "seconds between two records of the times of each rank's steps; 0: none; auto: 10, and more with more than "
            "160 ranks",
            "Output", "auto", 0, kMost},
    Setting{"report", Kind::Switch, "true", "on|off",
            "write report.html beside metrics.jsonl at the end of the run, and print its summary", "Output"},
    Setting{"tensorboard", Kind::Switch, "false", "on|off",
            "write the curves of metrics.jsonl, the settings and images of the first batch for TensorBoard as well, to "
            "tensorboard in the run's folder",
            "Output"},
    Setting{
        "tensorboard-histograms", Kind::Integer, "0", "STEPS",
        "tensorboard: steps between two histograms of the weights and gradients; 0: none. With fsdp they are of rank "
        "0's shards",
        "Output", "", 0, kMost},
    Setting{"trace-steps", Kind::Text, "", "FIRST-LAST",
            "write what all ranks do in these steps, at most 1000, to trace-FIRST-LAST.json in the run's folder, for "
            "https://ui.perfetto.dev or chrome://tracing",
            "Output"},
};

}  // namespace

settings::Table trainer_table() { return kTrainerTable; }

}  // namespace rollcall::config
