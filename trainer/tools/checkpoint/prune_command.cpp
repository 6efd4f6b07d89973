#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "trainer/checkpoint/format/file_state.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"
#include "trainer/tools/checkpoint/program.h"
#include "trainer/tools/checkpoint/prune.h"

namespace rollcall::checkpoint_tool {
namespace prune_impl {
namespace {

namespace fs = std::filesystem;
namespace format = checkpoint::format;

using command_line::Flag;
using settings::Kind;
using settings::Setting;

constexpr std::array kFlags{
    kHelp,
    kJson,
    Flag{"dry-run", 0, "Remove nothing, and print what would be removed"},
};

// The same names, defaults and limits as in trainer/config/run_settings.cpp.
constexpr std::array kTable{
    Setting{"keep-last", Kind::Integer, "3", "N", "Number of newest checkpoints to keep", "Retention", "", 1, 1e6},
    Setting{"keep-best", Kind::Integer, "1", "N", "Number of checkpoints with the best validation to keep as well",
            "Retention", "", 0, 1e6},
    Setting{"keep-every", Kind::Integer, "0", "STEPS", "Keep the first checkpoint of every N steps for ever. 0: none",
            "Retention", "", 0, 1e15},
    Setting{"verify", Kind::Choice, "full", "full|metadata",
            "Which checksums are compared before anything is removed. full: those of the newest --keep-last "
            "checkpoints, whole. metadata: those of their tables of contents",
            "Retention"},
    kProgress,
};

constexpr std::string_view kText =
    R"help(Removes the checkpoints of FOLDER that a training with these options would have removed, the oldest first, and
temporary files of writers that crashed. First it reads the newest checkpoints completely: damaged ones do not count, so
that a usable one is always kept. Everything else is kept, including symbolic links and files that were set aside. A
training may be running in the folder at the same time.

Examples:
  rollcall-checkpoint prune --dry-run checkpoints
  rollcall-checkpoint prune --keep-last=1 --keep-best=2 --keep-every=10000 $SCRATCH/run/checkpoints
)help";

/// Returns an error if there are checkpoints but none is usable. Other files may have been removed.
Result<void> check_usable(const Pruning& pruning) {
  const auto usable = [](const PrunedFile& pruned) { return is_usable_checkpoint(pruned.file); };
  const auto is_checkpoint = [](const PrunedFile& pruned) {
    const auto name = format::parse_file_name(fs::path(pruned.file.path).filename().string());
    return name && name->kind == format::NameKind::Checkpoint;
  };
  if (std::ranges::any_of(pruning.files, usable) || std::ranges::none_of(pruning.files, is_checkpoint)) {
    return {};
  }
  return fail("checkpoint", pruning.folder, "holds no intact checkpoint, so none was removed",
              "rollcall-checkpoint verify to see what is damaged", ErrorKind::BadData);
}

std::string_view word_for(const PrunedFile& pruned, bool dry_run) {
  if (!pruned.decision.is_removed) {
    return "kept";
  }
  return pruned.removed ? "removed" : dry_run ? "would be removed" : "not removed";
}

/// Returns the bytes that removing the file frees: none while the file has another name.
std::uint64_t freed_by(const PrunedFile& pruned, bool dry_run) {
  const bool counts = (pruned.removed || (dry_run && pruned.decision.is_removed)) && pruned.file.entry.links == 1;
  return counts ? pruned.file.bytes : 0;
}

struct Totals {
  std::size_t gone = 0;
  std::size_t stay = 0;
  std::uint64_t freed = 0;
};

Totals totals_of(const Pruning& pruning) {
  Totals totals;
  for (const PrunedFile& pruned : pruning.files) {
    const bool gone = pruned.removed || (pruning.dry_run && pruned.decision.is_removed);
    ++(gone ? totals.gone : totals.stay);
    totals.freed += freed_by(pruned, pruning.dry_run);
  }
  return totals;
}

void print_table(std::ostream& out, const Pruning& pruning) {
  std::vector<std::vector<std::string>> rows{{"FILE", "STATE", "SIZE", "", ""}};
  for (const PrunedFile& pruned : pruning.files) {
    const std::string verified = pruned.verified && !pruned.decision.is_removed ? ", verified" : "";
    rows.push_back({fs::path(pruned.file.path).filename().string(), std::string(format::state_name(pruned.file.state)),
                    metrics::human_bytes(pruned.file.bytes), std::string(word_for(pruned, pruning.dry_run)),
                    pruned.decision.reason + verified});
  }
  const Totals totals = totals_of(pruning);
  out << command_line::text_table(rows)
      << fmt::format("{} {}, {} {}; {} kept\n", totals.gone, pruning.dry_run ? "would be removed" : "removed",
                     metrics::human_bytes(totals.freed), pruning.dry_run ? "would be freed" : "freed", totals.stay);
}

void print_json_report(std::ostream& out, const Pruning& pruning) {
  Json files = Json::array();
  for (const PrunedFile& pruned : pruning.files) {
    files.push_back({{"path", pruned.file.path},
                     {"state", format::state_name(pruned.file.state)},
                     {"step", pruned.file.step ? Json(*pruned.file.step) : Json(nullptr)},
                     {"bytes", pruned.file.bytes},
                     {"verified", pruned.verified},
                     {"goes", pruned.decision.is_removed},
                     {"removed", pruned.removed},
                     {"why", pruned.decision.reason}});
  }
  print_json(out, "prune",
             {{"path", pruning.folder},
              {"dry_run", pruning.dry_run},
              {"files", std::move(files)},
              {"freed_bytes", totals_of(pruning).freed}});
}

Result<Pruning> look_into(const CommandContext& context) {
  Pruning pruning;
  pruning.folder = context.arguments.front();
  pruning.rules = {.keep_last = context.options.integer("keep-last"),
                   .keep_best = static_cast<std::size_t>(context.options.integer("keep-best")),
                   .keep_every = context.options.integer("keep-every")};
  pruning.dry_run = context.line.has("dry-run");
  std::error_code ignored;
  if (fs::is_regular_file(pruning.folder, ignored)) {
    return fail("checkpoint", pruning.folder, "is a file", "naming the folder that holds it", ErrorKind::NoInput);
  }
  ASSIGN_OR_RETURN(auto listed, list_files(pruning.folder));
  if (std::ranges::none_of(listed, is_of_training)) {
    return no_checkpoint_in(pruning.folder);
  }
  std::ranges::reverse(listed);
  for (ListedFile& file : listed) {
    pruning.files.push_back({std::move(file), {}});
  }
  return pruning;
}

Result<int> run(CommandContext& context) {
  ASSIGN_OR_RETURN(auto pruning, look_into(context));
  decide(pruning);
  const auto is_removed = [](const PrunedFile& pruned) { return pruned.decision.is_removed; };
  if (context.options.text("verify") == "full" && std::ranges::any_of(pruning.files, is_removed)) {
    verify_newest(pruning, context.progress);
    decide(pruning);
  }
  const Result<void> removed = pruning.dry_run ? Result<void>() : remove_files(pruning);
  context.json() ? print_json_report(context.out, pruning) : print_table(context.out, pruning);
  context.out.flush();
  if (!removed) {
    return removed.error();
  }
  const Result<void> usable = check_usable(pruning);
  return usable ? Result<int>(to_int(ExitCode::Success)) : usable.error();
}

}  // namespace
}  // namespace prune_impl

Command prune_command() {
  return {"prune", "remove superfluous ones", "FOLDER",           prune_impl::kText, 1,
          1,       prune_impl::kFlags,        prune_impl::kTable, prune_impl::run};
}

}  // namespace rollcall::checkpoint_tool
