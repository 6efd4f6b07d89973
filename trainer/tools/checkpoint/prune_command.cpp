#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "trainer/checkpoint/format/file_name.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/tools/checkpoint/command.h"
#include "trainer/tools/checkpoint/json_report.h"
#include "trainer/tools/checkpoint/pruning.h"
#include "trainer/tools/checkpoint/stored_file.h"

namespace rollcall::checkpoint_tool {
namespace {

namespace fs = std::filesystem;
namespace format = checkpoint::format;

/// Where checkpoints are there and none of them can be used. Files that are no checkpoints may have gone all the same.
Result<void> check_usable(const Pruning& pruning) {
  const auto usable = [](const PrunedFile& pruned) { return is_usable_checkpoint(pruned.file); };
  const auto is_checkpoint = [](const PrunedFile& pruned) {
    const auto name = format::parse_file_name(fs::path(pruned.file.path).filename().string());
    return name && name->kind == format::NameKind::Checkpoint;
  };
  if (std::ranges::any_of(pruning.files, usable) || std::ranges::none_of(pruning.files, is_checkpoint)) {
    return {};
  }
  return fail("checkpoint", pruning.folder, "holds no sound checkpoint, and so none was removed",
              "rollcall-checkpoint verify, which names what is damaged", ExitCode::BadData);
}

std::string_view word_for(const PrunedFile& pruned, bool dry_run) {
  if (!pruned.fate.goes) {
    return "stays";
  }
  return pruned.removed ? "removed" : dry_run ? "would go" : "not removed";
}

/// What removing the file gives back: nothing as long as it has another name.
std::uint64_t freed_by(const PrunedFile& pruned, bool dry_run) {
  const bool counts = (pruned.removed || (dry_run && pruned.fate.goes)) && pruned.file.entry.links == 1;
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
    const bool gone = pruned.removed || (pruning.dry_run && pruned.fate.goes);
    ++(gone ? totals.gone : totals.stay);
    totals.freed += freed_by(pruned, pruning.dry_run);
  }
  return totals;
}

void print_table(std::ostream& out, const Pruning& pruning) {
  std::vector<std::vector<std::string>> rows{{"FILE", "STATE", "SIZE", "", ""}};
  for (const PrunedFile& pruned : pruning.files) {
    const std::string verified = pruned.verified && !pruned.fate.goes ? ", verified" : "";
    rows.push_back({printable(fs::path(pruned.file.path).filename().string()),
                    std::string(format::state_name(pruned.file.state)), metrics::human_bytes(pruned.file.bytes),
                    std::string(word_for(pruned, pruning.dry_run)), printable(pruned.fate.why) + verified});
  }
  const Totals totals = totals_of(pruning);
  out << command_line::text_table(rows)
      << fmt::format("{} {}, {} {}; {} {}\n", totals.gone, pruning.dry_run ? "would go" : "removed",
                     metrics::human_bytes(totals.freed), pruning.dry_run ? "would be freed" : "freed", totals.stay,
                     totals.stay == 1 ? "stays" : "stay");
}

void print_json_report(std::ostream& out, const Pruning& pruning) {
  Json files = Json::array();
  for (const PrunedFile& pruned : pruning.files) {
    files.push_back({{"path", pruned.file.path},
                     {"state", format::state_name(pruned.file.state)},
                     {"step", pruned.file.step ? Json(*pruned.file.step) : Json(nullptr)},
                     {"bytes", pruned.file.bytes},
                     {"verified", pruned.verified},
                     {"goes", pruned.fate.goes},
                     {"removed", pruned.removed},
                     {"why", pruned.fate.why}});
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
    return fail("checkpoint", pruning.folder, "is a file", "the folder that holds it", ExitCode::NoInput);
  }
  auto seen = look_at(pruning.folder);
  if (!seen) {
    return seen.error();
  }
  if (std::ranges::none_of(*seen, is_of_training)) {
    return no_checkpoint_in(pruning.folder);
  }
  std::ranges::reverse(*seen);
  for (SeenFile& file : *seen) {
    pruning.files.push_back({std::move(file), {}});
  }
  return pruning;
}

}  // namespace

Result<int> run_prune(CommandContext& context) {
  auto pruning = look_into(context);
  if (!pruning) {
    return pruning.error();
  }
  decide(*pruning);
  const auto goes = [](const PrunedFile& pruned) { return pruned.fate.goes; };
  if (context.options.text("verify") == "full" && std::ranges::any_of(pruning->files, goes)) {
    verify_newest(*pruning, context.progress);
    decide(*pruning);
  }
  const Result<void> removed = pruning->dry_run ? Result<void>() : remove_files(*pruning);
  context.json() ? print_json_report(context.out, *pruning) : print_table(context.out, *pruning);
  context.out.flush();
  if (!removed) {
    return removed.error();
  }
  const Result<void> usable = check_usable(*pruning);
  return usable ? Result<int>(to_int(ExitCode::Success)) : usable.error();
}

}  // namespace rollcall::checkpoint_tool
