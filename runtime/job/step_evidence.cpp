#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/first_on_host.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/own_environment.h"

namespace rollcall::job {
namespace {

constexpr std::chrono::seconds kPatience{10};  // a busy slurmctld answers late

std::string proc_file(const std::string& name) {
  constexpr std::size_t kMostOfFile = std::size_t{4} << 20;  // an environment is the longest of these files
  std::string content;
  const FileReading reading = read_small_file("/proc/" + name, kMostOfFile, content);
  return reading.reason.empty() ? content : "";
}

/// Returns the value of a line "NAME: VALUE" of /proc/PID/status; empty where there is none.
std::string status_value(std::string_view status, const std::string& name) {
  for (const std::string& line : split(status, '\n')) {
    if (line.starts_with(name + ":")) {
      return std::string(trim(std::string_view(line).substr(name.size() + 1)));
    }
  }
  return "";
}

/// Finds the step in the title of the nearest slurmstepd above this process (a cluster may run inside a job of another
/// one), and the environment of the process that it, or a salloc in the step, started.
StepEvidence look_at_ancestors() {
  constexpr int kMost = 100;
  StepEvidence evidence;
  bool has_given = false;
  std::string first = "self";
  std::string process = std::to_string(::getppid());
  for (int above = 0; above < kMost && !process.empty(); ++above) {
    const std::string status = proc_file(process + "/status");
    const std::string name = status_value(status, "Name");
    if (!has_given && (name == "slurmstepd" || name == "salloc")) {
      evidence.given = environment_in(proc_file(first + "/environ"));
      has_given = true;
    }
    evidence.has_hydra = evidence.has_hydra || (!has_given && name == "hydra_pmi_proxy");
    if (name == "slurmstepd") {
      evidence.step = step_in_title(proc_file(process + "/cmdline"));
      break;
    }
    first = std::exchange(process, status_value(status, "PPid"));
  }
  return evidence;
}

bool is_element_of_another_number(const Environment& environment) {
  const auto array = environment.get_non_empty(env::kSlurmArrayJobId);
  return array && array != environment.get(env::kSlurmJobId);
}

/// Reads the job's line of squeue: its number, the array element ("N/A": none) and the restart count. An array has one
/// line per element, and one element may have the array's number. Returns false where there is no such line.
bool ask_controller(const Environment& environment, SlurmctldQuery asking, StepEvidence& evidence) {
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
      split(asking == SlurmctldQuery::PerProcess ? ask() : ask_once_per_host("squeue-of-" + job, kPatience, ask), ' ');
  std::erase(words, "");
  if (words.size() == 3) {
    evidence.is_array_element = words[1] != "N/A";
    evidence.restarts = parse_integer<std::uint32_t>(words[2]);
  }
  return evidence.is_array_element.has_value();
}

}  // namespace

std::optional<StepOfProcess> step_in_title(std::string_view command_line) {
  constexpr std::string_view kTitle = "slurmstepd: [";
  return command_line.starts_with(kTitle)
             ? parse_step_name(command_line.substr(kTitle.size(), command_line.find(']') - kTitle.size()))
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
    return parse_step_name(std::string_view(text).substr(0, text.find('/')));
  }
  return std::nullopt;
}

std::optional<Environment> environment_in(const std::string& content) {
  if (!content.ends_with('\0')) {
    return std::nullopt;
  }
  std::vector<const char*> entries;
  for (std::size_t at = 0; at < content.size(); at = content.find('\0', at) + 1) {
    entries.push_back(content.data() + at);
  }
  entries.push_back(nullptr);
  return Environment::from_entries(entries.data());
}

Environment own_environment(const Environment& environment) {
  if (!environment.get_non_empty(env::kSlurmJobId)) {
    return environment;
  }
  StepEvidence evidence = look_at_ancestors();
  if (!evidence.step) {
    evidence.step = step_in_cgroups(proc_file("self/cgroup"));
  }
  return without_inherited_variables(environment, evidence);
}

Environment with_slurmctld_facts(Environment own, SlurmctldQuery asking) {
  const bool requeued = own.get_non_empty(env::kSlurmRestartCount).has_value();
  if (!own.get_non_empty(env::kSlurmJobId) || !(is_element_of_another_number(own) || requeued)) {
    return own;
  }
  StepEvidence evidence;
  if (ask_controller(own, asking, evidence)) {
    return without_inherited_variables(std::move(own), evidence);
  }
  const std::string_view name = is_element_of_another_number(own) ? env::kSlurmArrayTaskId : env::kSlurmRestartCount;
  if (own.get(env::kSlurmProcId).value_or("0") == "0") {
    fmt::print(
        stderr,
        "rollcall: warning: {}: {}: is used, but may belong to a job that submitted this one, because squeue did "
        "not answer; try unsetting {} in that case\n",
        name, printable(own.get(name).value_or("")), name);
  }
  return own;
}

}  // namespace rollcall::job
