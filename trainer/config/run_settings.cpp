#include <array>

#include "trainer/config/settings_groups.h"

namespace rollcall::config {
namespace {

using settings::Kind;
using settings::Setting;

constexpr std::array kRunSettings{
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
    Setting{"evaluate", Kind::Path, "", "FILE",
            "Evaluate the weights of this file instead of training. It is a checkpoint, or a file of torch.save or "
            "safetensors. A checkpoint also has the model, the data and the size of images, unless options say "
            "otherwise",
            "Checkpoints"},
    Setting{"evaluate-split", Kind::Choice, "valid", "valid|train|test|all",
            "Which images --evaluate uses. test and all are for data without folders train and val. test: those that "
            "are held out of the split 85/10/5. all: all images of the data",
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

settings::Table run_settings() { return kRunSettings; }

}  // namespace rollcall::config
