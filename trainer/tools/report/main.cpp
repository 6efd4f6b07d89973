#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <iostream>
#include <optional>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "runtime/command_line/tool_main.h"
#include "trainer/report/comparison.h"
#include "trainer/report/page.h"
#include "trainer/report/summary.h"

namespace rollcall::report_tool {
namespace {

using command_line::Flag;
using report::Run;
using settings::Kind;
using settings::Setting;

constexpr std::array kReportTable{
    Setting{"output", Kind::Path, "", "FILE|-",
            "File for the page. -: standard output. Empty: report.html in the folder of the run, or "
            "comparison.html here for several runs",
            "Report", "-"},
};

constexpr std::array kReportFlags{
    Flag{"text", 0, "Print ten lines for a terminal or a mail, and write no page"},
    Flag{"table", 0, "Print a line for each run, the best first, with the settings that differ, and write no page"},
    Flag{"json", 0, "Print one JSON object per run, each on a line, and write no page"},
    Flag{"csv", 0, "Print all curves as CSV, and write no page"},
};

constexpr std::string_view kReportUsage = R"(usage: rollcall-report [OPTION...] RUN [RUN...]

Writes a report of a training from its records: one self-contained HTML page. RUN is the folder of a run, or its
metrics.jsonl; the run need not have ended. Several runs are compared: the settings that differ, and curves in one plot.
rollcall-train writes this page itself at its end (--report).

  rollcall-report $SCRATCH/rollcall/imagenet                 report.html in that folder
  rollcall-report --output=a-b.html runs/a runs/b            two runs side by side
  rollcall-report --text $SCRATCH/rollcall/imagenet | mail -s "my training" me
  rollcall-report --json runs/* | jq '{run, best_top1, node_hours}'
  rollcall-report --table $SCRATCH/rollcall/sweep-*          the runs of a sweep, the best first
  rollcall-report --csv runs/a > curves.csv
)";

constexpr std::string_view kReportCodes =
    "\nExit codes: 0 success; 64 wrong option; 66 no run can be read (others are reported and left out); 73, 74 the\n"
    "page cannot be written.\n";

/// Reads the runs; `err` gets the reason for each unreadable one. Error: none can be read.
Result<std::vector<Run>> read_runs(const std::vector<std::string>& paths, std::ostream& err) {
  std::vector<Run> runs;
  std::optional<Error> last;
  for (const std::string& path : paths) {
    Result<Run> run = report::read_run(path);
    if (run) {
      runs.push_back(*std::move(run));
      continue;
    }
    if (last) {
      err << last->message() << "\n";
    }
    last = run.error();
  }
  if (runs.empty() && last) {
    return *last;
  }
  if (last) {
    err << last->message() << "\n";
  }
  return runs;
}

/// Distinguishes runs of the same name by their paths.
void name_apart(std::vector<Run>& runs) {
  for (Run& run : runs) {
    for (const Run& other : runs) {
      if (&run != &other && run.name == other.name) {
        run.name = run.path;
      }
    }
  }
}

Result<void> write_page(const std::vector<Run>& runs, const std::string& given, std::ostream& out) {
  const std::string page = report::page_html(runs);
  if (given == "-") {
    out << page;
    return {};
  }
  const std::filesystem::path folder = std::filesystem::path(runs.front().path).parent_path();
  const std::string own = runs.size() > 1 ? "comparison.html" : (folder / "report.html").string();
  const std::string path = given.empty() ? own : given;
  RETURN_IF_ERROR(report::write_whole(path, page));
  out << printable(path) << "\n";
  return {};
}

Result<int> print_or_write(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  settings::Settings options{kReportTable};
  const std::array targets{&options};
  const command_line::Tool tool{"rollcall-report", ROLLCALL_VERSION, kReportUsage, kReportFlags, kReportCodes};
  ASSIGN_OR_RETURN(const auto read, command_line::read_tools_command_line(tool, targets, arguments, out));
  if (!read) {
    return to_int(ExitCode::Success);
  }
  const command_line::ParsedCommandLine& line = *read;
  const std::vector<std::string>& paths = line.positional;
  if (paths.empty()) {
    return fail("command line", "", "RUN is missing", "rollcall-report FOLDER, where FOLDER holds metrics.jsonl");
  }
  ASSIGN_OR_RETURN(std::vector<Run> runs, read_runs(paths, err));
  name_apart(runs);
  if (line.has("table")) {
    out << command_line::text_table(report::comparison(runs));
  } else if (line.has("csv")) {
    out << report::curves_csv(runs);
  } else if (line.has("json") || line.has("text")) {
    for (const Run& run : runs) {
      out << (line.has("json") ? report::summary_json(run) + "\n" : report::summary_text(run));
      out << (line.has("text") && runs.size() > 1 ? "\n" : "");
    }
  } else {
    RETURN_IF_ERROR(write_page(runs, options.text("output"), out));
  }
  return to_int(ExitCode::Success);
}

}  // namespace
}  // namespace rollcall::report_tool

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return rollcall::command_line::tool_main("rollcall-report", "naming fewer runs", std::cout, std::cerr, [&] {
    return rollcall::report_tool::print_or_write(arguments, std::cout, std::cerr);
  });
}
