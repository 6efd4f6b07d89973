#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/tools/checkpoint/checkpoint_listing.h"
#include "trainer/tools/checkpoint/program.h"

namespace rollcall::checkpoint_tool {
namespace ls_impl {
namespace {

constexpr std::string_view kText =
    R"help(Lists checkpoints, newest first, and files that are unfinished, damaged, set aside, superseded or being written
(docs/reference/checkpoint_format.md explains each state). It reads only headers and tables of contents; `verify`
checks every byte.

Examples:
  rollcall-checkpoint ls $SCRATCH/run/checkpoints
  rollcall-checkpoint ls --json checkpoints | jq '.files[] | select(.state == "committed").path'
)help";

std::string step_text(const std::optional<std::int64_t>& number) { return number ? std::to_string(*number) : "-"; }

std::vector<std::string> row_of(const ListedFile& file, const std::string& name) {
  const std::string note = file.reason.empty() ? (file.is_best ? "best" : "") : file.reason;
  return {name,
          std::string(checkpoint::format::state_name(file.state)),
          step_text(file.step),
          step_text(file.epoch),
          file.best_metric ? fmt::format("{:.4f}", *file.best_metric) : "-",
          metrics::human_bytes(file.bytes),
          file.created.empty() ? "-" : file.created,
          note};
}

Json json_of(const ListedFile& file) {
  const auto number = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"path", file.path},           {"state", checkpoint::format::state_name(file.state)},
          {"reason", file.reason},       {"step", number(file.step)},
          {"epoch", number(file.epoch)}, {"best_metric", number(file.best_metric)},
          {"best", file.is_best},        {"bytes", file.bytes},
          {"created", file.created}};
}

Result<int> run(CommandContext& context) {
  std::vector<std::string> paths = context.arguments;
  if (paths.empty()) {
    paths.emplace_back(".");
  }
  std::vector<std::vector<std::string>> rows{{"FILE", "STATE", "STEP", "EPOCH", "BEST SO FAR", "SIZE", "CREATED", ""}};
  Json files = Json::array();
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const auto listed, list_files(path));
    for (const ListedFile& file : listed) {
      const bool only_folder = paths.size() == 1 && path != file.path;
      rows.push_back(row_of(file, only_folder ? std::filesystem::path(file.path).filename().string() : file.path));
      files.push_back(json_of(file));
    }
  }
  if (context.json()) {
    print_json(context.out, "ls", {{"files", std::move(files)}});
  } else if (rows.size() == 1) {
    context.out << fmt::format("{}: no checkpoints\n", printable(paths.front()));
  } else {
    context.out << command_line::text_table(rows);
  }
  return to_int(ExitCode::Success);
}

}  // namespace
}  // namespace ls_impl

Command ls_command() {
  return {"ls",
          "files, their states, steps and sizes",
          "[FOLDER|FILE...]",
          ls_impl::kText,
          0,
          kAnyNumber,
          kListFlags,
          {},
          ls_impl::run};
}

}  // namespace rollcall::checkpoint_tool
