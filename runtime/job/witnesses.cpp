#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/first_on_host.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/own_environment.h"

namespace rollcall::job {
namespace {

constexpr std::chrono::seconds kPatience{10};  // a busy controller answers late

std::string proc_file(const std::string& name) {
  constexpr std::size_t kMostOfFile = 1 << 16;
  std::string content;
  (void)read_small_file("/proc/" + name, kMostOfFile, content);
  return content;
}

/// The value of a line "NAME: VALUE" of /proc/PID/status.
std::string status_value(std::string_view status, const std::string& name) {
  for (const std::string& line : split(status, '\n')) {
    if (line.starts_with(name + ":")) {
      return std::string(trim(std::string_view(line).substr(name.size() + 1)));
    }
  }
  return "";
}

/// Of the nearest slurmstepd above this process, which may be that of a cluster inside a job of another.
std::optional<StepOfProcess> step_of_ancestors() {
  constexpr int kMost = 100;
  std::string process = std::to_string(::getppid());
  for (int above = 0; above < kMost && !process.empty(); ++above) {
    const std::string status = proc_file(process + "/status");
    if (status_value(status, "Name") == "slurmstepd") {
      return step_in_title(proc_file(process + "/cmdline"));
    }
    process = status_value(status, "PPid");
  }
  return std::nullopt;
}

bool is_element_of_another_number(const Environment& environment) {
  const auto array = environment.get_non_empty(env::kSlurmArrayJobId);
  return array && array != environment.get(env::kSlurmJobId);
}

/// What squeue has in the job's line: its number, the array's element ("N/A": none), how often it was requeued. An
/// array has a line for each of its elements, of which one may have the array's own number.
void ask_controller(const Environment& environment, Asking asking, Witnesses& witnesses) {
  const std::string job = *environment.get(env::kSlurmJobId);
  const auto ask = [&] {
    const Result<std::string> text =
        output_of({"squeue", "--noheader", "--Format=JobID:20,ArrayTaskID:20,RestartCnt:20", "--jobs=" + job},
                  environment, kPatience);
    for (const std::string& line : split(text ? *text : "", '\n')) {
      if (line.starts_with(job + " ")) {
        return line;
      }
    }
    return std::string();
  };
  std::vector<std::string> words =
      split(asking == Asking::ForItself ? ask() : asked_once_on_host("squeue-of-" + job, kPatience, ask), ' ');
  std::erase(words, "");
  if (words.size() == 3) {
    witnesses.is_array_element = words[1] != "N/A";
    witnesses.restarts = parse_integer<std::uint32_t>(words[2]);
  }
}

}  // namespace

std::optional<StepOfProcess> step_in_title(std::string_view command_line) {
  constexpr std::string_view kTitle = "slurmstepd: [";
  return command_line.starts_with(kTitle)
             ? step_named(command_line.substr(kTitle.size(), command_line.find(']') - kTitle.size()))
             : std::nullopt;
}

std::optional<StepOfProcess> step_in_cgroups(std::string_view content) {
  for (const std::string& line : split(content, '\n')) {
    const std::size_t job = line.find("/job_");
    const std::size_t step = line.find("/step_", job);
    if (job == line.npos || step == line.npos) {
      continue;
    }
    const std::string text = line.substr(job + 5, step - job - 5) + "." + line.substr(step + 6);
    return step_named(std::string_view(text).substr(0, text.find('/')));
  }
  return std::nullopt;
}

Environment own_environment(const Environment& environment, Asking asking) {
  if (!environment.get_non_empty(env::kSlurmJobId)) {
    return environment;
  }
  Witnesses witnesses{.step = step_of_ancestors()};
  if (!witnesses.step) {
    witnesses.step = step_in_cgroups(proc_file("self/cgroup"));
  }
  if (is_element_of_another_number(environment) || environment.get_non_empty(env::kSlurmRestartCount)) {
    ask_controller(environment, asking, witnesses);
  }
  return without_values_of_others(environment, witnesses);
}

}  // namespace rollcall::job
