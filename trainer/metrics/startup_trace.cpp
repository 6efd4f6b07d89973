#include "trainer/metrics/startup_trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace rollcall::metrics {
namespace {

double seconds_of(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Reads field 22 of /proc/self/stat (proc(5)), the ticks from boot to the fork. Returns `otherwise` on failure.
double start_of_process(double otherwise) {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // The name in parentheses may have blanks, so that fields are counted from its end, where field 3 follows.
  const std::size_t name_end = line.rfind(')');
  std::istringstream fields(name_end == std::string::npos ? "" : line.substr(name_end + 1));
  std::string skipped;
  constexpr int kFieldsBefore = 19;
  for (int i = 0; i < kFieldsBefore; ++i) {
    fields >> skipped;
  }
  double ticks = 0;
  return fields >> ticks ? ticks / static_cast<double>(sysconf(_SC_CLK_TCK)) : otherwise;
}

double milliseconds(double from, double to) { return 1e3 * (to - from); }

}  // namespace

Moment now() noexcept { return {seconds_of(CLOCK_BOOTTIME), seconds_of(CLOCK_PROCESS_CPUTIME_ID)}; }

StartupTrace::StartupTrace(Moment linked) : start_{start_of_process(linked.wall), 0} {
  stages_.push_back({"fork, exec, dynamic link", linked});
  mark("library constructors");
}

void StartupTrace::mark(std::string name) { stages_.push_back({std::move(name), now()}); }

std::string StartupTrace::table() const {
  std::string text = fmt::format("{:<28} {:>9} {:>9}\n", "start-up of rank 0", "wall ms", "CPU ms");
  Moment before = start_;
  for (const Stage& stage : stages_) {
    fmt::format_to(std::back_inserter(text), "{:<28} {:>9.1f} {:>9.1f}\n", stage.name,
                   milliseconds(before.wall, stage.end.wall), milliseconds(before.cpu, stage.end.cpu));
    before = stage.end;
  }
  fmt::format_to(std::back_inserter(text), "{:<28} {:>9.1f} {:>9.1f}\n", "from fork (10 ms ticks)",
                 milliseconds(start_.wall, before.wall), milliseconds(start_.cpu, before.cpu));
  return text;
}

std::string StartupTrace::json() const {
  nlohmann::ordered_json line{{"event", "startup"}, {"stages", nlohmann::ordered_json::array()}};
  Moment before = start_;
  for (const Stage& stage : stages_) {
    line["stages"].push_back({{"stage", stage.name},
                              {"wall_ms", milliseconds(before.wall, stage.end.wall)},
                              {"cpu_ms", milliseconds(before.cpu, stage.end.cpu)}});
    before = stage.end;
  }
  line["total_ms"] = milliseconds(start_.wall, before.wall);
  return line.dump() + "\n";
}

}  // namespace rollcall::metrics
