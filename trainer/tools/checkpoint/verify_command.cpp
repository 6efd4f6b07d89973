#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "runtime/base/text.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"
#include "trainer/tools/checkpoint/program.h"

namespace rollcall::checkpoint_tool {
namespace verify_impl {
namespace {

using Seconds = std::chrono::duration<double>;

using settings::Kind;
using settings::Setting;

constexpr std::array kTable{
    Setting{"num-workers", Kind::Integer, "0", "N", "Threads that read and check. 0: up to four", "Running", "", 0,
            1024},
    kProgress,
};

constexpr std::string_view kText =
    R"help(Reads complete checkpoints (all of a folder) and compares every byte with its checksum. Damaged tensors are
named. Exit code 65: something is damaged.

Examples:
  rollcall-checkpoint verify checkpoints
  rollcall-checkpoint verify --num-workers=8 /archive/run7/best.h5
)help";

struct Verified {
  std::string path;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::vector<std::string> damaged;  ///< names of the tensors and values whose bytes are not what was written
  std::string reason;                ///< why the file cannot be used at all
  [[nodiscard]] bool sound() const { return damaged.empty() && reason.empty(); }
};

struct Wanted {
  std::string path;
  bool listed = false;  ///< found in a folder, where a running training may have removed it since
};

/// Returns the files to verify, newest first. Errors: a folder holds none (NoInput), or cannot be listed.
Result<std::vector<Wanted>> files_of(const std::vector<std::string>& arguments) {
  std::vector<Wanted> files;
  for (const std::string& path : arguments) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) {
      files.push_back({path});
      continue;
    }
    ASSIGN_OR_RETURN(const auto listed, checkpoint::format::list_checkpoints(path));
    if (listed.empty()) {
      return no_checkpoint_in(path);
    }
    for (const auto& checkpoint : listed) {
      files.push_back({checkpoint.path, true});
    }
  }
  return files;
}

/// Verifies a file. Damage is in the report; other failures (no such file, a newer format, system errors) are Errors.
Result<Verified> verify(const std::string& path, std::size_t threads, metrics::WorkProgress& progress) {
  const auto begun = std::chrono::steady_clock::now();
  Verified report;
  report.path = path;
  const auto file = CheckpointFile::open(path);
  auto damaged = file ? file->find_damaged(threads, progress) : Result<std::vector<std::string>>(file.error());
  if (damaged) {
    report.bytes = file->file_bytes();
    report.damaged = *std::move(damaged);
  } else if (damaged.error().kind == ErrorKind::BadData) {
    report.reason = damaged.error().reason;
  } else {
    return damaged.error();
  }
  report.seconds = Seconds(std::chrono::steady_clock::now() - begun).count();
  return report;
}

bool is_gone(const std::string& path) {
  std::error_code error;
  return !std::filesystem::exists(path, error) && !error;
}

std::string line_of(const Verified& report) {
  if (!report.reason.empty()) {
    return fmt::format("{}: {}\n", printable(report.path), printable(report.reason));
  }
  if (!report.damaged.empty()) {
    std::string text = fmt::format("{}: {} damaged:\n", printable(report.path), report.damaged.size());
    for (const std::string& name : report.damaged) {
      text += "  " + printable(name) + "\n";
    }
    return text;
  }
  const double rate = report.seconds > 0 ? static_cast<double>(report.bytes) / report.seconds : 0;
  return fmt::format("{}: intact, {} in {:.2f} s ({}/s)\n", printable(report.path), metrics::human_bytes(report.bytes),
                     report.seconds, metrics::human_bytes(static_cast<std::uint64_t>(rate)));
}

Json json_of(const Verified& report) {
  return {{"path", report.path},     {"sound", report.sound()}, {"damaged", report.damaged},
          {"reason", report.reason}, {"bytes", report.bytes},   {"seconds", report.seconds}};
}

Result<int> run(CommandContext& context) {
  ASSIGN_OR_RETURN(const auto files, files_of(context.arguments));
  const auto asked = static_cast<std::size_t>(context.options.integer("num-workers"));
  const std::size_t threads = asked > 0 ? asked : checkpoint::format::default_threads();
  Json json = Json::array();
  std::size_t bad = 0;
  std::string first_bad;
  for (const auto& [path, listed] : files) {
    const auto report = verify(path, threads, context.progress);
    context.progress.end();
    if (listed && !(report && report->sound()) && is_gone(path)) {
      context.out << (context.json() ? "" : printable(path) + ": was removed in the meantime\n") << std::flush;
      continue;
    }
    if (!report) {
      return report.error();
    }
    if (!report->sound() && bad++ == 0) {
      first_bad = path;
    }
    json.push_back(json_of(*report));
    context.out << (context.json() ? "" : line_of(*report)) << std::flush;
  }
  if (context.json()) {
    print_json(context.out, "verify", {{"files", std::move(json)}});
  }
  if (bad > 0) {
    return fail("checkpoint", first_bad,
                fmt::format("{} of {} files {} damaged", bad, files.size(), bad == 1 ? "is" : "are"),
                "--resume=auto, which uses the newest intact checkpoint, or restoring a copy", ErrorKind::BadData);
  }
  return to_int(ExitCode::Success);
}

}  // namespace
}  // namespace verify_impl

Command verify_command() {
  return {"verify",
          "read all and check every checksum",
          "CHECKPOINT|FOLDER...",
          verify_impl::kText,
          1,
          kAnyNumber,
          kListFlags,
          verify_impl::kTable,
          verify_impl::run};
}

}  // namespace rollcall::checkpoint_tool
