#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/tools/checkpoint/command.h"
#include "trainer/tools/checkpoint/json_report.h"
#include "trainer/tools/checkpoint/seen_file.h"

namespace rollcall::checkpoint_tool {
namespace {

std::string step_text(const std::optional<std::int64_t>& number) { return number ? std::to_string(*number) : "-"; }

std::vector<std::string> row_of(const SeenFile& file, const std::string& name) {
  const std::string note = file.reason.empty() ? (file.is_best ? "best" : "") : file.reason;
  return {printable(name),
          std::string(checkpoint::format::state_name(file.state)),
          step_text(file.step),
          step_text(file.epoch),
          file.best_metric ? fmt::format("{:.4f}", *file.best_metric) : "-",
          metrics::human_bytes(file.bytes),
          file.created.empty() ? "-" : printable(file.created),
          printable(note)};
}

Json json_of(const SeenFile& file) {
  const auto number = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"path", file.path},           {"state", checkpoint::format::state_name(file.state)},
          {"reason", file.reason},       {"step", number(file.step)},
          {"epoch", number(file.epoch)}, {"best_metric", number(file.best_metric)},
          {"best", file.is_best},        {"bytes", file.bytes},
          {"created", file.created}};
}

}  // namespace

Result<int> run_ls(CommandContext& context) {
  std::vector<std::string> paths = context.arguments;
  if (paths.empty()) {
    paths.emplace_back(".");
  }
  std::vector<std::vector<std::string>> rows{{"FILE", "STATE", "STEP", "EPOCH", "BEST SO FAR", "SIZE", "CREATED", ""}};
  Json files = Json::array();
  for (const std::string& path : paths) {
    const auto seen = look_at(path);
    if (!seen) {
      return seen.error();
    }
    for (const SeenFile& file : *seen) {
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

}  // namespace rollcall::checkpoint_tool
