#include <array>

#include "trainer/tools/checkpoint/command.h"

namespace rollcall::checkpoint_tool {
namespace {

using command_line::Flag;
using settings::Kind;
using settings::Setting;

constexpr std::size_t kAny = 1'000'000;

constexpr Flag kHelp{"help", 'h', "show this text"};
constexpr Flag kJson{"json", 0, "print one JSON object (docs/checkpoint_tool.md)"};
constexpr Flag kOverwrite{"overwrite", 0, "replace OUT if it is there"};

constexpr Setting kProgress{"progress",
                            Kind::Choice,
                            "auto",
                            "auto|bar|lines|none",
                            "progress display on stderr; auto: a bar on a terminal, else a line every ten seconds",
                            "Running",
                            "auto|bar|lines|none"};

constexpr std::array kListFlags{kHelp, kJson};
constexpr std::string_view kLsText =
    R"help(Lists checkpoints, newest first, and what became of others: unfinished, damaged, set aside, superseded, being
written (docs/checkpoint_format.md explains each state). Files are told apart by their seals and tables of contents; that
every byte is right only `verify` says.

Examples:
  rollcall-checkpoint ls $SCRATCH/run/checkpoints
  rollcall-checkpoint ls --json checkpoints | jq '.files[] | select(.state == "committed").path'
)help";

constexpr std::array kVerifyTable{
    Setting{"num-workers", Kind::Integer, "0", "N", "threads that read and check; 0: up to four", "Running", "", 0,
            1024},
    kProgress,
};
constexpr std::string_view kVerifyText =
    R"help(Reads checkpoints whole (all of a folder) and compares every byte with its checksum. What is damaged is named,
tensor by tensor. Exit code 65: something is damaged.

Examples:
  rollcall-checkpoint verify checkpoints
  rollcall-checkpoint verify --num-workers=8 /archive/run7/best.h5
)help";

constexpr std::array kShowFlags{
    kHelp,
    kJson,
    Flag{"tensors", 0, "list all tensors: type, shape, size, checksum"},
};
constexpr std::string_view kShowText =
    R"help(Prints what a checkpoint says of itself: who wrote it and when, how far the training was, its settings, and how
many tensors of what it holds. With names of tensors: what is in these (least, greatest, mean, standard deviation; how
many zeros, NaN and infinities). Every byte that is shown was checked.

Examples:
  rollcall-checkpoint show checkpoints
  rollcall-checkpoint show --tensors checkpoints/best.h5
  rollcall-checkpoint show best.h5 fc.weight /optimizer/state/fc.weight/exp_avg_sq
)help";

constexpr std::array kDiffFlags{
    kHelp,
    kJson,
    Flag{"model", 0, "only the model's parameters and buffers"},
};
constexpr std::array kProgressTable{kProgress};
constexpr std::string_view kDiffText =
    R"help(Compares two checkpoints tensor by tensor (model, optimizer, generators) and value by value: which
differ, in how many elements, and by how much at most, absolutely and relative to the larger of both. Two NaN are equal,
and so are 0 and -0. Exit code 0: equal; 1: not.

Examples:
  rollcall-checkpoint diff run1/checkpoints/step-00000100.h5 run2/checkpoints/step-00000100.h5
  rollcall-checkpoint diff --model before.h5 after.h5
)help";

constexpr std::array kOutFlags{kHelp, kJson, kOverwrite};
constexpr std::array kExportTable{
    Setting{"to", Kind::Choice, "auto", "auto|torch|safetensors",
            "format; auto: by OUT's name (.pt, .pth and .bin: torch; .safetensors)", "Export",
            "auto|torch|safetensors"},
};
constexpr std::string_view kExportText =
    R"help(Writes the model's parameters and buffers as other programs read them: a file of torch.save, or
safetensors. The names are torchvision's:

  torchvision.models.resnet50(num_classes=10).load_state_dict(torch.load(OUT, weights_only=True))

Examples:
  rollcall-checkpoint export checkpoints/best.h5 resnet50.pth
  rollcall-checkpoint export checkpoints resnet50.safetensors      the newest
)help";

constexpr std::array kImportTable{
    Setting{"key", Kind::Text, "", "NAME",
            "the item of the file's dict that is the state dict; empty: the dict itself, or what it holds as "
            "state_dict, model_state_dict or model",
            "Import"},
};
constexpr std::string_view kImportText =
    R"help(Makes a checkpoint of a state dict: a file of torch.save (PyTorch 1.6 or newer) or safetensors. Nothing in the
file is executed: of Python's pickles only what makes up a state dict is understood, and all else refused. "module." and
"_orig_mod." before all names are taken off.

Examples:
  rollcall-checkpoint import resnet50-11ad3fa6.pth start.h5
  rollcall-checkpoint import --key=model_ema model_599.pth start.h5
)help";

constexpr std::string_view kMergeText =
    R"help(Averages the models of several checkpoints, element by element: the mean of the last ones of a run often
generalises better than each ("model soup", checkpoint averaging). Numbers without fractions, such as BatchNorm's counters,
are the last one's. Running means and variances are averaged too, which is close to what a pass over the training data would
give. A checkpoint of rollcall's has no shards that would have to be joined: it is one file whatever the parallelism.

Examples:
  rollcall-checkpoint merge mean.h5 checkpoints/step-00000900.h5 checkpoints/step-00001000.h5
)help";

constexpr std::array kPruneFlags{
    kHelp,
    kJson,
    Flag{"dry-run", 0, "remove nothing, tell what would go"},
};
// The trainer's own, trainer/config/trainer_settings.cpp: the same names, defaults and limits.
constexpr std::array kPruneTable{
    Setting{"keep-last", Kind::Integer, "3", "N", "newest checkpoints that are kept", "Retention", "", 1, 1e6},
    Setting{"keep-best", Kind::Integer, "1", "N", "checkpoints of the best validations that are kept besides",
            "Retention", "", 0, 1e6},
    Setting{"keep-every", Kind::Integer, "0", "STEPS",
            "of each so many steps the first checkpoint is kept for ever; 0: none", "Retention", "", 0, 1e15},
    Setting{
        "verify", Kind::Choice, "full", "full|metadata",
        "what is compared with its checksums before anything is removed: the newest keep-last checkpoints whole, or "
        "their tables of contents",
        "Retention", "full|metadata"},
    kProgress,
};
constexpr std::string_view kPruneText =
    R"help(Removes the checkpoints of FOLDER that a training with these options would have removed, the oldest first,
and what crashes left: temporary files whose writer is dead. Before that the newest ones are read whole: damaged ones do
not count, so that one which can be used always stays. Everything else is left alone, symbolic links and files set aside
too. A training may be at work in the folder meanwhile.

Examples:
  rollcall-checkpoint prune --dry-run checkpoints
  rollcall-checkpoint prune --keep-last=1 --keep-best=2 --keep-every=10000 $SCRATCH/run/checkpoints
)help";

constexpr std::array kCommands{
    Command{"ls", "files, their states, steps and sizes", "[FOLDER|FILE...]", kLsText, 0, kAny, kListFlags, {}, run_ls},
    Command{"show", "what is in it", "CHECKPOINT [TENSOR...]", kShowText, 1, kAny, kShowFlags, {}, run_show},
    Command{"verify", "read all and check every checksum", "CHECKPOINT|FOLDER...", kVerifyText, 1, kAny, kListFlags,
            kVerifyTable, run_verify},
    Command{"diff", "which tensors differ, and how much", "A B", kDiffText, 2, 2, kDiffFlags, kProgressTable, run_diff},
    Command{"export", "its model for PyTorch or safetensors", "CHECKPOINT OUT", kExportText, 2, 2, kOutFlags,
            kExportTable, run_export},
    Command{"import", "a model of PyTorch's as a checkpoint", "FILE OUT", kImportText, 2, 2, kOutFlags, kImportTable,
            run_import},
    Command{"merge", "the mean of several models", "OUT CHECKPOINT...", kMergeText, 3, kAny, kOutFlags, kProgressTable,
            run_merge},
    Command{"prune", "remove superfluous ones", "FOLDER", kPruneText, 1, 1, kPruneFlags, kPruneTable, run_prune},
};

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

}  // namespace rollcall::checkpoint_tool
