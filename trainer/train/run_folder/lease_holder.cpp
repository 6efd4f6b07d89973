#include "trainer/train/run_folder/lease_holder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <system_error>

#include "runtime/base/child_process.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/base/untrusted_json.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/job_facts.h"

namespace rollcall::train {
namespace {

constexpr std::chrono::seconds kPatienceWithSlurm{5};  ///< limit for a controller that does not respond

/// Returns the fields of /proc/PID/stat after the name, which may contain anything: the state comes first (proc(5)).
std::vector<std::string> process_fields(std::int64_t pid) {
  const std::string text = content_of(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? std::vector<std::string>() : split(text.substr(name_end + 2), ' ');
}

/// Returns field 22 of /proc/PID/stat; empty if the process no longer runs.
std::string start_of(std::int64_t pid) {
  constexpr std::size_t kState = 0;
  constexpr std::size_t kStart = 22 - 3;
  const std::vector<std::string> fields = process_fields(pid);
  const bool runs = fields.size() > kStart && fields[kState] != "Z" && fields[kState] != "X";
  return runs ? fields[kStart] : "";
}

std::string target_of(const char* link) {
  std::error_code ignored;
  return std::filesystem::read_symlink(link, ignored).string();
}

/// Returns whether it is "12", or "12_3" for an element of an array. Anyone may have written it.
bool is_job_name(const std::string& text) {
  const std::size_t line = text.find('_');
  return parse_integer<std::uint64_t>(text.substr(0, line)) &&
         (line == std::string::npos || parse_integer<std::uint64_t>(text.substr(line + 1)));
}

}  // namespace

Holder this_run(const Environment& environment) {
  std::random_device random;
  return {.nonce = fmt::format("{:08x}{:08x}", random(), random()),
          .host = this_host_name(),
          .boot = first_line_of("/proc/sys/kernel/random/boot_id"),
          .processes = target_of("/proc/self/ns/pid"),
          .pid = ::getpid(),
          .started = start_of(::getpid()),
          .cluster = environment.get_non_empty(env::kSlurmClusterName).value_or(""),
          .job = job::job_name_for_slurm(environment),
          .restarts = environment.get_non_empty(env::kSlurmRestartCount).value_or("0"),
          .run = environment.get_non_empty(env::kRun).value_or(""),
          .generation = environment.get_non_empty(env::kGeneration).value_or("")};
}

std::string to_json(const Holder& holder) {
  const nlohmann::ordered_json json{{"nonce", holder.nonce},
                                    {"host", holder.host},
                                    {"boot", holder.boot},
                                    {"processes", holder.processes},
                                    {"pid", holder.pid},
                                    {"started", holder.started},
                                    {"cluster", holder.cluster},
                                    {"job", holder.job},
                                    {"restarts", holder.restarts},
                                    {"run", holder.run},
                                    {"generation", holder.generation}};
  return json.dump(2) + "\n";
}

Holder from_json(const std::string& text) {
  const nlohmann::json json = parse_untrusted(text).value_or(nlohmann::json());
  Holder holder;
  if (!json.is_object()) {
    return holder;
  }
  const auto take = [&](const char* name, std::string& into) {
    if (const auto value = json.find(name); value != json.end() && value->is_string()) {
      into = printable(value->get<std::string>());
    }
  };
  take("nonce", holder.nonce);
  take("host", holder.host);
  take("boot", holder.boot);
  take("processes", holder.processes);
  take("started", holder.started);
  take("cluster", holder.cluster);
  take("job", holder.job);
  take("restarts", holder.restarts);
  take("run", holder.run);
  take("generation", holder.generation);
  if (const auto pid = json.find("pid"); pid != json.end() && pid->is_number_integer()) {
    holder.pid = pid->get<std::int64_t>();
  }
  return holder;
}

std::string text_of(const Holder& holder) {
  const std::string process = fmt::format("process {} on {}", holder.pid, holder.host.empty() ? "?" : holder.host);
  return holder.job.empty() ? process : fmt::format("job {}, {}", holder.job, process);
}

Standing by_kernel(const Holder& holder, const Holder& self) {
  if (holder.boot.empty() || holder.boot != self.boot || holder.processes != self.processes) {
    return Standing::Unknown;
  }
  const std::string started = start_of(holder.pid);
  if (started.empty()) {  // it has ended, or is another user's, which /proc with hidepid hides
    return ::kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno == ESRCH ? Standing::Dead : Standing::Unknown;
  }
  return started == holder.started ? Standing::Alive : Standing::Dead;
}

bool is_earlier_start(const Holder& holder, const Holder& self) {
  const auto is_less = [](const std::string& one, const std::string& other) {
    const auto theirs = parse_integer<std::uint64_t>(one);
    const auto ours = parse_integer<std::uint64_t>(other);
    return theirs && ours && *theirs < *ours;
  };
  const bool same_job = !holder.job.empty() && holder.job == self.job && holder.cluster == self.cluster;
  const bool same_run = !holder.run.empty() && holder.run == self.run;
  return (same_job && is_less(holder.restarts, self.restarts)) ||
         (same_run && is_less(holder.generation, self.generation));
}

Standing by_slurm(const Holder& holder, const Holder& self, const Environment& environment) {
  if (!is_job_name(holder.job) || holder.cluster != self.cluster || holder.job == self.job) {
    return Standing::Unknown;
  }
  const Result<ChildOutput> asked = run_and_capture({"squeue", "--noheader", "--format=%T", "--jobs=" + holder.job},
                                                    environment, {.patience = kPatienceWithSlurm, .alone = true});
  if (!asked || asked->killed) {
    return Standing::Unknown;
  }
  if (asked->exit_code != 0) {
    return asked->text.find("Invalid job id") != std::string::npos ? Standing::Dead : Standing::Unknown;
  }
  const std::string_view state = trim(asked->text);
  if (state.empty() || state == "PENDING") {  // it has ended, or waits to start again
    return Standing::Dead;
  }
  return state == "SUSPENDED" || state == "STOPPED" ? Standing::Alive : Standing::Unknown;
}

}  // namespace rollcall::train
