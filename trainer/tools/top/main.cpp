#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/file.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "runtime/command_line/tool_main.h"
#include "trainer/report/summary.h"
#include "trainer/tools/top/frame.h"

namespace rollcall::top {
namespace {

using command_line::Flag;
using report::Run;
using settings::Kind;
using settings::Setting;

constexpr std::array kTopTable{
    Setting{"interval", Kind::Number, "1", "SECONDS", "Time between two looks at the run's record", "View", "", 0.1,
            3600},
};
constexpr std::array kTopFlags{
    Flag{"once", 0, "Print one picture, and end"},
    Flag{"json", 0, "With --once: print one JSON object, the same as rollcall-report --json"},
};
constexpr std::string_view kTopUsage = R"(usage: rollcall-top [OPTION...] [RUN]

Shows a training while it runs: progress, remaining time and the job's time limit, curves, the parts of a step's time, the
slowest ranks, and checkpoints. It reads the records of the run, so it works on a login node. RUN is the folder of a run, or
its metrics.jsonl; the default is the run below $SCRATCH/rollcall or ./rollcall that wrote last. q quits.

  rollcall top                                   the same: `rollcall top` is this program
  rollcall top $SCRATCH/rollcall/imagenet
  rollcall top --once --json runs/a | jq .step

NO_COLOR (or TERM=dumb) turns colours off.

Exit codes: 0 success; 64 wrong option, or standard output is no terminal and --once is missing; 66 the run cannot be read.
)";

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns the record that was written last, in the runs below `folder`; empty if there is none.
std::string newest_record(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::string newest;
  fs::file_time_type when{};
  for (const fs::path& run : entries_of(folder)) {
    for (const char* const name : {"metrics.jsonl", "checkpoints/metrics.jsonl"}) {
      const fs::path record = run / name;
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
    return fail("command line", named[1], "unexpected argument", "rollcall-report for several runs");
  }
  if (!named.empty()) {
    return named.front();
  }
  const std::string folder = environment.get_non_empty("SCRATCH").value_or(".") + "/rollcall";
  const std::string found = newest_record(folder);
  if (found.empty()) {
    return fail("RUN", folder, "holds no run", "naming the folder of a run", ErrorKind::NoInput);
  }
  return found;
}

FrameOptions frame_options(const Environment& environment, bool on_terminal) {
  const bool plain =
      environment.get_non_empty("NO_COLOR").has_value() || environment.get("TERM").value_or("") == "dumb";
  return {.colours = on_terminal && !plain, .utf8 = command_line::speaks_utf8(environment)};
}

termios g_terminal_before{};
bool g_keys_at_once = false;
volatile std::sig_atomic_t g_ended = 0;

void note_end(int /*signal*/) { g_ended = 1; }
void note_nothing(int /*signal*/) {}  // its only effect is to interrupt the wait

/// Writes to the terminal. The next signal reports a closed one.
void write_to_terminal(std::string_view text) { (void)write_all(STDOUT_FILENO, text); }

void catch_signal(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(number, &action, nullptr);
}

/// Controls the terminal while a program shows changing content: its alternate screen, no cursor, and keys without
/// Enter. The destructor restores everything. Use one at a time.
class Screen {
 public:
  /// Errors (Usage): standard output is not a terminal.
  [[nodiscard]] static Result<void> check();
  Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  struct Size {
    std::size_t width = 80;
    std::size_t height = 24;
  };
  [[nodiscard]] Size size() const;
  /// Shows `lines` in one write, each over the previous one, so that nothing flickers.
  void show(const std::vector<std::string>& lines) const;
  /// Waits for the given time; returns true if a key or a signal requests the end (q, Escape, Ctrl-C, TERM). A change
  /// of the terminal's size ends the wait early.
  [[nodiscard]] bool told_to_end_within(double seconds) const;
};

Result<void> Screen::check() {
  if (::isatty(STDOUT_FILENO) == 0) {
    return fail("standard output", "", "is not a terminal", "--once to print one frame, or --once --json");
  }
  return {};
}

Screen::Screen() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    catch_signal(number, note_end);
  }
  catch_signal(SIGWINCH, note_nothing);
  if (::tcgetattr(STDIN_FILENO, &g_terminal_before) == 0) {
    termios keys = g_terminal_before;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    g_keys_at_once = ::tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
  }
  write_to_terminal("\x1b[?1049h\x1b[?25l\x1b[2J");
}

Screen::~Screen() {
  write_to_terminal("\x1b[?25h\x1b[?1049l");
  if (g_keys_at_once) {
    ::tcsetattr(STDIN_FILENO, TCSANOW, &g_terminal_before);
  }
}

Screen::Size Screen::size() const {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  return known ? Size{size.ws_col, size.ws_row} : Size{};
}

void Screen::show(const std::vector<std::string>& lines) const {
  std::string text = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += lines[i] + "\x1b[K" + (i + 1 < lines.size() ? "\r\n" : "");
  }
  write_to_terminal(text + "\x1b[J");
}

bool Screen::told_to_end_within(double seconds) const {
  std::array<pollfd, 1> keys{{{.fd = g_keys_at_once ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}}};
  const int ready = g_ended != 0 ? 0 : ::poll(keys.data(), keys.size(), static_cast<int>(1000 * seconds));
  char key = 0;
  if (ready > 0 && ::read(STDIN_FILENO, &key, 1) <= 0) {
    return true;  // the terminal is gone
  }
  return g_ended != 0 || key == 'q' || key == 'Q' || key == '\x1b';
}

/// Follows a growing record: each update reads only new lines.
class Follower {
 public:
  explicit Follower(const std::string& run) : raw_(report::unread_run(run)) {}

  /// Errors: those of RecordFile.
  Result<void> look() {
    if (!file_) {
      ASSIGN_OR_RETURN(report::RecordFile opened, report::RecordFile::open(raw_.path));
      file_ = std::move(opened);
    }
    RETURN_IF_ERROR(file_->read([this](const report::ReadRecord& record) { reader_.take(record); }));
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

Result<void> follow(const std::string& run, FrameOptions look, double interval) {
  RETURN_IF_ERROR(Screen::check());
  Follower follower(run);
  RETURN_IF_ERROR(follower.look());
  const Screen screen;
  do {
    const Screen::Size size = screen.size();
    look.width = size.width;
    look.height = size.height;
    screen.show(frame(follower.run(), look, now_in_seconds()));
  } while (!screen.told_to_end_within(interval) && follower.look());
  return {};
}

Result<void> print_once(const std::string& path, const FrameOptions& look, bool json, std::ostream& out) {
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
  const command_line::Tool tool{"rollcall-top", ROLLCALL_VERSION, kTopUsage, kTopFlags};
  ASSIGN_OR_RETURN(const auto read, command_line::read_tools_command_line(tool, targets, arguments, out));
  if (!read) {
    return to_int(ExitCode::Success);
  }
  const command_line::ParsedCommandLine& line = *read;
  if (line.has("json") && !line.has("once")) {
    return fail("--json", "", "works only with --once", "--once --json");
  }
  ASSIGN_OR_RETURN(const std::string run, chosen_run(line.positional, environment));
  const Result<void> shown = line.has("once")
                                 ? print_once(run, frame_options(environment, false), line.has("json"), out)
                                 : follow(run, frame_options(environment, true), options.number("interval"));
  return shown ? Result<int>(to_int(ExitCode::Success)) : shown.error();
}

}  // namespace
}  // namespace rollcall::top

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return rollcall::command_line::tool_main(
      "rollcall-top", "running it on a node with more memory", std::cout, std::cerr, [&] {
        return rollcall::top::show(arguments, rollcall::with_home_and_user(rollcall::Environment::of_this_process()),
                                   std::cout);
      });
}
