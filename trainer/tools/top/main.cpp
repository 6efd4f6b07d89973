#include <fmt/format.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "runtime/command_line/tool_main.h"
#include "trainer/report/summary.h"
#include "trainer/tools/top/frame.h"
#include "trainer/tools/top/screen.h"

namespace rollcall::top {
namespace {

using command_line::Flag;
using report::Run;
using settings::Kind;
using settings::Setting;

constexpr std::array kTopTable{
    Setting{"interval", Kind::Number, "1", "SECONDS", "seconds between two looks at the run's record", "View", "", 0.1,
            3600},
};
constexpr std::array kTopFlags{
    Flag{"help", 'h', "show this text"},
    Flag{"version", 0, "show the version"},
    Flag{"once", 0, "print what is to be seen now, and end"},
    Flag{"json", 0, "with --once: as one JSON object, that of rollcall-report --json"},
};
constexpr std::string_view kTopUsage = R"(usage: rollcall-top [OPTION...] [RUN]

Shows a training while it runs: progress, time to go and the job's limit, curves, what a step's time goes to, the slowest
ranks, checkpoints. It reads what the run writes, so it works from a login node. RUN is the folder of a run, or its
metrics.jsonl; without one the run that wrote last below $SCRATCH/rollcall, or below ./rollcall. q ends it.

  rollcall top                                   the same: `rollcall top` is this program
  rollcall top $SCRATCH/rollcall/imagenet
  rollcall top --once --json runs/a | jq .step

NO_COLOR (or TERM=dumb) turns colours off.

)";

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The record that was written to last, in the runs below `folder`; empty where there is none.
std::string newest_record(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::string newest;
  fs::file_time_type when{};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    for (const char* const name : {"metrics.jsonl", "checkpoints/metrics.jsonl"}) {
      const fs::path record = entry.path() / name;
      const fs::file_time_type written = fs::last_write_time(record, ignored);
      if (!ignored && (newest.empty() || written > when)) {
        newest = record.string();
        when = written;
      }
      ignored.clear();
    }
  }
  return newest;
}

Result<std::string> chosen_run(const std::vector<std::string>& named, const Environment& environment) {
  if (named.size() > 1) {
    return fail("command line", named[1], "is one run too many", "rollcall-report for several");
  }
  if (!named.empty()) {
    return named.front();
  }
  const std::string folder = environment.get_non_empty("SCRATCH").value_or(".") + "/rollcall";
  const std::string found = newest_record(folder);
  if (found.empty()) {
    return fail("RUN", folder, "there is no run below it", "naming the folder of one", ErrorKind::NoInput);
  }
  return found;
}

Look look_of(const Environment& environment, bool on_terminal) {
  const std::string locale = environment.get_non_empty("LC_ALL").value_or(
      environment.get_non_empty("LC_CTYPE").value_or(environment.get("LANG").value_or("")));
  const bool utf8 = locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  const bool plain =
      environment.get_non_empty("NO_COLOR").has_value() || environment.get("TERM").value_or("") == "dumb";
  return {.colours = on_terminal && !plain, .utf8 = utf8};
}

/// Follows a record that grows: each look reads only what is new.
class Follower {
 public:
  explicit Follower(const std::string& run) : raw_(report::unread_run(run)) {}

  /// Errors: those of RecordFile.
  Result<void> look() {
    if (!file_) {
      ASSIGN_OR_RETURN(report::RecordFile opened, report::RecordFile::open(raw_.path));
      file_ = std::move(opened);
    }
    if (Result<void> read = file_->read([this](const report::ReadRecord& record) { reader_.take(record); }); !read) {
      return read;
    }
    shown_ = raw_;
    report::look_at_present(shown_);
    report::add_notes(shown_, file_->notes());
    return {};
  }
  [[nodiscard]] const Run& run() const { return shown_; }

 private:
  Run raw_;
  Run shown_;
  report::RunReader reader_{raw_};
  std::optional<report::RecordFile> file_;
};

Result<void> follow(const std::string& run, Look look, double interval) {
  if (Result<void> terminal = Screen::check(); !terminal) {
    return terminal;
  }
  Follower follower(run);
  if (Result<void> first = follower.look(); !first) {
    return first;
  }
  const Screen screen;
  do {
    const Screen::Size size = screen.size();
    look.width = size.width;
    look.height = size.height;
    screen.show(frame(follower.run(), look, now_in_seconds()));
  } while (!screen.told_to_end_within(interval) && follower.look());
  return {};
}

Result<void> print_once(const std::string& path, const Look& look, bool json, std::ostream& out) {
  ASSIGN_OR_RETURN(const Run run, report::read_run(path));
  if (json) {
    out << report::summary_json(run) << "\n";
    return {};
  }
  for (const std::string& line : frame(run, look, now_in_seconds())) {
    out << line << "\n";
  }
  return {};
}

Result<int> show(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out) {
  settings::Settings options{kTopTable};
  const std::array targets{&options};
  ASSIGN_OR_RETURN(auto line, command_line::parse_command_line(targets, kTopFlags, arguments));
  if (line.has("help")) {
    const std::array<settings::Table, 1> tables{kTopTable};
    out << kTopUsage << command_line::help_text(kTopFlags, tables);
    return to_int(ExitCode::Success);
  }
  if (line.has("version")) {
    out << "rollcall-top " ROLLCALL_VERSION "\n";
    return to_int(ExitCode::Success);
  }
  if (line.has("json") && !line.has("once")) {
    return fail("--json", "", "is for --once", "--once --json");
  }
  ASSIGN_OR_RETURN(const std::string run, chosen_run(line.positional, environment));
  const Result<void> shown = line.has("once") ? print_once(run, look_of(environment, false), line.has("json"), out)
                                              : follow(run, look_of(environment, true), options.number("interval"));
  return shown ? Result<int>(to_int(ExitCode::Success)) : shown.error();
}

}  // namespace
}  // namespace rollcall::top

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return rollcall::command_line::tool_main("rollcall-top", "a machine with more", std::cout, std::cerr, [&] {
    return rollcall::top::show(arguments, rollcall::with_home_and_user(rollcall::Environment::of_this_process()),
                               std::cout);
  });
}
