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
            "Training images, or fake for synthetic ones. PATH is a folder with a sub-folder for each class, a "
            "file of rollcall-pack, or a folder of WebDataset tar shards. Its train and val are used if it has "
            "them; otherwise its images are split 85/10/5",
            "Data", "fake"}
        .common(),
    Setting{"index-dir", Kind::Path, "", "DIR|none",
            "Folder that keeps the list of the images for the next run. The list is made again once a folder or "
            "shard has changed. none: do not keep it. Empty: $SCRATCH/rollcall/index",
            "Data", "none"},
    Setting{"train-num-workers", Kind::Integer, "auto", "N|auto",
            "Threads that load training images. 0: the main thread loads them. auto: as many as the task has "
            "CPUs that do not compute, at least 1, and more if the first steps wait for data",
            "Data", "auto", 0, 1024}
        .common(),
    Setting{"valid-num-workers", Kind::Integer, "auto", "N|auto",
            "Threads that load validation images. auto: as many as the task has CPUs that do not compute, at "
            "least 1",
            "Data", "auto", 0, 1024},
    Setting{"prefetch", Kind::Integer, "2", "N", "Batches that each worker loads ahead", "Data", "", 1, 1024},
    Setting{"fake-size", Kind::Integer, "1000", "N",
            "Number of synthetic images with --data=fake, before the split 85/10/5", "Data", "", 20, 1e9},
    Setting{"image-size", Kind::Integer, "224", "PIXELS", "Height and width of the images that the model gets", "Data",
            "", 8, 8192}
        .common(),
    Setting{"valid-image-size", Kind::Integer, "0", "PIXELS", "Height and width of validation images. 0: --image-size",
            "Data", "", 0, 8192},
    Setting{"valid-resize", Kind::Integer, "0", "PIXELS",
            "Shorter side of a validation image before the centre crop. 0: 256/224 of the height that is cropped",
            "Data", "", 0, 16384},
    Setting{"crop-scale-min", Kind::Number, "0.08", "FRACTION", "Smallest area of RandomResizedCrop", "Data", "", 1e-6,
            1},
    Setting{"crop-scale-max", Kind::Number, "1", "FRACTION", "Largest area of RandomResizedCrop", "Data", "", 1e-6, 1},
    Setting{"crop-ratio-min", Kind::Number, "0.75", "RATIO", "Smallest width/height of RandomResizedCrop", "Data", "",
            0.01, 100},
    Setting{"crop-ratio-max", Kind::Number, "1.3333333333333333", "RATIO", "Largest width/height of RandomResizedCrop",
            "Data", "", 0.01, 100},
    Setting{"flip", Kind::Number, "0.5", "PROBABILITY", "Probability of a horizontal flip in training", "Data", "", 0,
            1},
    Setting{"vertical-flip", Kind::Number, "0", "PROBABILITY", "Probability of a vertical flip in training", "Data", "",
            0, 1},
    Setting{"image-dtype", Kind::Choice, "float32", "float32|bfloat16|uint8",
            "Type of images in memory and in copies to the device. bfloat16 takes half the memory of float32, "
            "uint8 a quarter. uint8 images are normalised where the model computes",
            "Data"},
    Setting{"last-batch", Kind::Choice, "drop", "drop|pad",
            "What to do with images that do not fill a global batch of training. drop: leave them out. pad: fill "
            "the batch from the epoch's beginning, as torch's DistributedSampler does",
            "Data"},
    Setting{"shuffle-window", Kind::Integer, "0", "N",
            "Consecutive images that are read at about the same time. 64 such windows are mixed. This helps with "
            "packed files on parallel file systems. 0: shuffle all images",
            "Data", "", 0, 1e9},
    Setting{"exif-orientation", Kind::Switch, "false", "on|off",
            "Rotate images as their EXIF orientation says. torchvision does not", "Data"},
    Setting{"dct-scaling", Kind::Switch, "false", "on|off",
            "Decode large crops at half size. This is faster and gives other pixels", "Data"},
    Setting{"bad-samples", Kind::Choice, "skip", "skip|fail",
            "What to do with an image that cannot be decoded. skip: leave it out. fail: end the run", "Data"},
    Setting{"max-bad-samples", Kind::Number, "0.05", "X",
            "Largest share of an epoch's images that --bad-samples=skip leaves out. With more the run ends", "Data", "",
            0, 1},

    Setting{"auto-augment", Kind::Choice, "none", "none|randaugment|trivial",
            "Random operations on each training image. randaugment: RandAugment. trivial: TrivialAugmentWide",
            "Augmentation"},
    Setting{"randaugment-ops", Kind::Integer, "2", "N", "Operations on an image with --auto-augment=randaugment",
            "Augmentation", "", 0, 10},
    Setting{"randaugment-magnitude", Kind::Integer, "9", "N",
            "Strength of the operations with --auto-augment=randaugment", "Augmentation", "", 0, 30},
    Setting{"brightness", Kind::Number, "0", "X", "Colour jitter: the brightness is multiplied by 1 - X to 1 + X",
            "Augmentation", "", 0, 100},
    Setting{"contrast", Kind::Number, "0", "X", "Colour jitter: the contrast is multiplied by 1 - X to 1 + X",
            "Augmentation", "", 0, 100},
    Setting{"saturation", Kind::Number, "0", "X", "Colour jitter: the saturation is multiplied by 1 - X to 1 + X",
            "Augmentation", "", 0, 100},
    Setting{"hue", Kind::Number, "0", "TURNS", "Colour jitter: the hue is shifted by -TURNS to TURNS", "Augmentation",
            "", 0, 0.5},
    Setting{"random-erase", Kind::Number, "0", "PROBABILITY", "Probability that a box of the image is erased",
            "Augmentation", "", 0, 1},
    Setting{"random-erase-value", Kind::Choice, "zero", "zero|random", "Content of the box that --random-erase erases",
            "Augmentation"},
    Setting{"mixup", Kind::Number, "0", "ALPHA",
            "Mix the images of a batch, with weights from Beta(ALPHA, ALPHA). 0: do not", "Augmentation", "", 0, 100},
    Setting{"cutmix", Kind::Number, "0", "ALPHA",
            "Paste boxes from other images of the batch, with sizes from Beta(ALPHA, ALPHA). 0: do not. With "
            "--mixup, one of the two is chosen at random",
            "Augmentation", "", 0, 100},

    Setting{"model", Kind::Choice, "resnet50", "NAME", "Network to train. resnet20 is for images of about 32 pixels",
            "Model", settings::kChoicesOf<model::kResNets>}
        .common(),
    Setting{"num-classes", Kind::Integer, "0", "N",
            "Number of outputs of the model. 0: the number of classes in the data, 1000 with --data=fake", "Model", "",
            0, 1e6},
    Setting{"zero-init-residual", Kind::Switch, "false", "on|off",
            "Start every residual branch at zero (Goyal et al. 2017), which helps large batches", "Model"},
    Setting{"channels-last", Kind::Switch, "true", "on|off",
            "Keep images and weights in the channels-last memory format", "Model"},

    Setting{
        "recipe", Kind::Text, "none", "NAME|FILE",
        "Published settings for a training, such as goyal-90. The user's own settings have precedence. FILE: a TOML "
        "file with a table [trainer]. --recipe-list shows the names",
        "Training", "none"}
        .common(),
    Setting{"epochs", Kind::Integer, "120", "N", "Passes over the training data", "Training", "", 1, 1e9}.common(),
    Setting{"max-steps", Kind::Integer, "0", "N",
            "Stop after this many steps in total, 0: no limit. A schedule that depends on the end ends there too",
            "Training", "", 0, kMost}
        .common(),
    Setting{"global-batch", Kind::Integer, "0", "N",
            "Images per step of all ranks together, for the same training on any number of ranks. Micro-batches are as "
            "large as --batch-size allows, and --lr is the rate of a step. 0: --batch-size and --grad-accumulation",
            "Training", "", 0, 1e9},
    Setting{"batch-size", Kind::Integer, "64", "N",
            "Images per rank and micro-batch. A step has --grad-accumulation micro-batches", "Training", "", 1, 1e6}
        .common(),
    Setting{"grad-accumulation", Kind::Integer, "1", "N",
            "Micro-batches per step. Their gradients are added up and sent once. If this is not given, a "
            "training that resumes with another number of ranks takes the number that keeps the images per step",
            "Training", "", 1, 1e6},
    Setting{"seed", Kind::Integer, "0", "N", "Seed of initial weights, order of the images and augmentation",
            "Training", "", 0, kMost},
    Setting{"optimizer", Kind::Choice, "adamw", kOptimizers, "Optimizer", "Training"}.common(),
    Setting{"lr", Kind::Number, "3e-4", "RATE", "Learning rate for one rank and micro-batch, see --lr-scaling",
            "Training", "", 0, 1e6}
        .common(),
    Setting{"lr-scaling", Kind::Choice, "linear", "linear|sqrt|none",
            "How the learning rate grows with ranks * grad-accumulation", "Training"},
    Setting{
        "lr-schedule", Kind::Choice, "none", "none|cosine|linear|polynomial|step|milestones",
        "How the learning rate changes after warm-up. cosine, linear and polynomial go down to --lr-end-factor at the "
        "end of the training",
        "Training"}
        .common(),
    Setting{"lr-end-factor", Kind::Number, "0", "FACTOR",
            "Learning rate at the end of the training, as a fraction of the rate after warm-up", "Training", "", 0, 1},
    Setting{"lr-power", Kind::Number, "2", "X", "Power of --lr-schedule=polynomial", "Training", "", 0.01, 100},
    Setting{"lr-milestones", Kind::List, "30,60,80", "EPOCHS",
            "Epochs at which the learning rate drops by --lr-step-factor with --lr-schedule=milestones", "Training"},
    Setting{"lr-step-epochs", Kind::Number, "30", "EPOCHS", "Epochs between two drops with --lr-schedule=step",
            "Training", "", 1e-6, 1e9},
    Setting{"lr-step-factor", Kind::Number, "0.1", "FACTOR", "Factor of each drop of the learning rate", "Training", "",
            0, 1},
    Setting{"warmup-epochs", Kind::Number, "0", "EPOCHS", "Epochs of linear warm-up of the learning rate, 0: none",
            "Training", "", 0, 1e9}
        .common(),
    Setting{"warmup-start-factor", Kind::Number, "0", "FACTOR",
            "Learning rate before the warm-up, as a fraction of the rate after it", "Training", "", 0, 1},
    Setting{"scale-optim-params", Kind::Switch, "false", "on|off",
            "Scale AdamW's lr, betas and eps with ranks * grad-accumulation. This is the square-root rule of "
            "arXiv 2205.10287",
            "Training"},
    Setting{"momentum", Kind::Number, "0.9", "FACTOR", "Momentum of SGD", "Training", "", 0, 1},
    Setting{"nesterov", Kind::Switch, "false", "on|off", "Use Nesterov momentum with SGD", "Training"},
    Setting{"weight-decay", Kind::Number, "0.01", "FACTOR", "Weight decay. It does not apply to batch norms and biases",
            "Training", "", 0, 1e6},
    Setting{"weight-decay-all", Kind::Switch, "false", "on|off", "Apply weight decay to batch norms and biases too",
            "Training"},
    Setting{"adam-beta1", Kind::Number, "0.9", "FACTOR", "Decay of the first moment of AdamW", "Training", "", 0, 1},
    Setting{"adam-beta2", Kind::Number, "0.999", "FACTOR", "Decay of the second moment of AdamW", "Training", "", 0, 1},
    Setting{"adam-eps", Kind::Number, "1e-8", "EPSILON", "Number that AdamW adds to the denominator", "Training", "", 0,
            1},
    Setting{"clip-grad-norm", Kind::Number, "0", "NORM",
            "Largest norm of all gradients together. Larger gradients are scaled down to it. 0: no limit", "Training",
            "", 0, 1e9},
    Setting{"max-skipped-steps", Kind::Integer, "10", "N",
            "Skipped steps in a row that end the training. A step is skipped if its gradients are not finite. 0: "
            "no limit. --precision=fp16 has its own rule",
            "Training", "", 0, kMost},
    Setting{"precision", Kind::Choice, "fp32", "fp32|bf16|fp16",
            "Type of convolutions and matrix products. Weights, their updates, statistics and the loss stay "
            "fp32. fp16 also scales the loss",
            "Training"}
        .common(),
    Setting{"label-smoothing", Kind::Number, "0", "FACTOR", "Label smoothing of the loss", "Training", "", 0, 1},

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
            "Launch a step on GPUs as two CUDA graphs instead of single kernels. They are captured after 11 "
            "steps. This helps small batches. on: an error if it is not possible. auto: off, until it was "
            "measured on hardware",
            "Parallel"},
    Setting{"own-kernels", Kind::Switch, "true", "on|off",
            "Use rollcall's own GPU kernels for batch norms, uint8 images and compressed gradients. They pass "
            "over memory less often. off: LibTorch's operators",
            "Parallel"},
    Setting{"backend", Kind::Choice, "auto", kBackendNames,
            "Communication backend. docs/user/backends.md compares them. auto: gloo on CPUs, nccl on GPUs. ucx: "
            "shared memory, TCP and InfiniBand. mpi: under srun --mpi=pmix or mpirun",
            "Parallel"}
        .common(),
    Setting{"collective-timeout", Kind::Number, "600", "SECONDS",
            "Longest time of a collective. After that the run ends with the names of the ranks that did not take "
            "part. The same holds for a GPU that does not respond",
            "Parallel", "", 1, 1e6},

    Setting{"run-name", Kind::Text, "", "NAME",
            "Name of this training and its folder, $SCRATCH/rollcall/NAME. Without SCRATCH it is "
            "./rollcall/NAME. The name is one part of a path, without blanks. Empty: the job's name, with the "
            "number of an element of a job array. Elements that resume from each other need a run-name",
            "Checkpoints"}
        .common(),
    Setting{"checkpoint-dir", Kind::Path, "", "DIR",
            "Folder of the checkpoints of this training alone. Empty: checkpoints in the run's folder", "Checkpoints"},
    Setting{"lease-timeout", Kind::Number, "60", "SECONDS",
            "How long a run waits for another run that writes to its folder. It waits until the other has ended "
            "or has not renewed its lease for this time",
            "Checkpoints", "", 0, 1e6},
    Setting{"checkpoint-epochs", Kind::Integer, "1", "N",
            "Save after every N epochs, 0: only at the end and on signals", "Checkpoints", "", 0, 1e9}
        .common(),
    Setting{"checkpoint-steps", Kind::Integer, "0", "N", "Save after every N steps as well, 0: off", "Checkpoints", "",
            0, kMost}
        .common(),
    Setting{"keep-last", Kind::Integer, "3", "N", "Number of newest checkpoints to keep", "Checkpoints", "", 1, 1e6},
    Setting{"keep-best", Kind::Integer, "1", "N", "Number of checkpoints with the best validation to keep as well",
            "Checkpoints", "", 0, 1e6},
    Setting{"keep-every", Kind::Integer, "0", "STEPS", "Keep the first checkpoint of every N steps for ever. 0: none",
            "Checkpoints", "", 0, kMost},
    Setting{"checkpoint-mode", Kind::Choice, "async", "async|sync",
            "async: training continues while a copy of its state is written. sync: training waits, and needs no "
            "memory for a copy",
            "Checkpoints"},
    Setting{"checkpoint-stage", Kind::Path, "", "DIR",
            "Fast folder of the node, such as /dev/shm, where a checkpoint is written first. It is then copied "
            "to --checkpoint-dir. All ranks must be on one node. Empty: none",
            "Checkpoints"},
    Setting{"checkpoint-overlap", Kind::Choice, "skip", "skip|wait",
            "What happens to a save of --checkpoint-steps while another is being written. skip: it is left out. "
            "wait: training waits",
            "Checkpoints"},
    Setting{"checkpoint-read-back", Kind::Choice, "memory", "memory|device",
            "Where a checkpoint is read back from before it gets its name. memory: from the page cache, while "
            "the device still writes. device: from the device, which takes two to three times as long",
            "Checkpoints"},
    Setting{"checkpoint-retries", Kind::Integer, "2", "N",
            "How often a failed save is tried again, after 1, 2, 4 ... seconds", "Checkpoints", "", 0, 100},
    Setting{"checkpoint-failures", Kind::Integer, "3", "N",
            "Failed saves in a row that end the training. 0: no limit. The last save of a run must succeed",
            "Checkpoints", "", 0, 1e6},
    Setting{"checkpoint-timeout", Kind::Number, "1800", "SECONDS",
            "How long a save waits for a rank whose file system does not respond. The save fails after that",
            "Checkpoints", "", 1, 1e6},
    Setting{"save-before-limit", Kind::Number, "0", "SECONDS",
            "Save and end with code 75 this long before the job's time limit. 0: leave that to a signal", "Checkpoints",
            "", 0, 1e6},
    Setting{"resume", Kind::Text, "auto", "auto|continue-with-changes|never|FILE",
            "What to continue from. auto: the newest intact checkpoint, if it is of this training. "
            "continue-with-changes: the same, even if settings that define the training have changed. never: "
            "start from scratch. FILE: this checkpoint",
            "Checkpoints", "auto|continue-with-changes|never"}
        .common(),
    Setting{"verify", Kind::Choice, "full", "full|metadata",
            "Which checksums are compared when a checkpoint is loaded. full: those of everything that is read. "
            "metadata: those of the table of contents",
            "Checkpoints"},
    Setting{"init-from", Kind::Text, "", "FILE",
            "Start with the weights of this file if there is nothing to resume. It is a checkpoint, or a file of "
            "torch.save or safetensors. A last layer with another number of classes is initialised anew",
            "Checkpoints"},

    Setting{"valid-epochs", Kind::Integer, "10", "N", "Validate after every N epochs and at the end, 0: never",
            "Output", "", 0, 1e9},
    Setting{"run-dir", Kind::Path, "", "DIR",
            "Folder of metrics.jsonl. Empty: the run's folder, beside the checkpoints", "Output"},
    Setting{"benchmark-epochs", Kind::Integer, "3", "N",
            "Passes of --benchmark-data over the training data. The first of several is a warm-up and does not "
            "count",
            "Output", "", 1, 1e6},
    Setting{"progress", Kind::Choice, "auto", "auto|bar|lines|none",
            "Progress display. auto: a bar on a terminal, otherwise lines", "Output"},
    Setting{"log-steps", Kind::Integer, "10", "N",
            "Steps between two progress lines, and between two records of metrics.jsonl", "Output", "", 1, kMost},
    Setting{"rank-seconds", Kind::Number, "auto", "SECONDS|auto",
            "Seconds between two records of the step times of each rank. 0: none. auto: 10, and more with more "
            "than 160 ranks",
            "Output", "auto", 0, kMost},
    Setting{"report", Kind::Switch, "true", "on|off",
            "Write report.html beside metrics.jsonl at the end of the run, and print its summary", "Output"},
    Setting{"tensorboard", Kind::Switch, "false", "on|off",
            "Write to the folder tensorboard of the run as well. It gets the curves of metrics.jsonl, the "
            "settings and images of the first batch",
            "Output"},
    Setting{"tensorboard-histograms", Kind::Integer, "0", "STEPS",
            "Steps between two histograms of weights and gradients for --tensorboard. 0: none. With fsdp they "
            "are those of rank 0's shards",
            "Output", "", 0, kMost},
    Setting{"trace-steps", Kind::Text, "", "FIRST-LAST",
            "Write what all ranks do in these steps to trace-FIRST-LAST.json. At most 1000 steps. Open the file "
            "with https://ui.perfetto.dev or chrome://tracing",
            "Output"},
};

}  // namespace

settings::Table trainer_table() { return kTrainerTable; }

}  // namespace rollcall::config
