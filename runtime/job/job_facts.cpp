#include "runtime/job/job_facts.h"

#include <array>
#include <chrono>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::job {
namespace {

std::uint32_t sum(const std::vector<std::uint32_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint32_t{0});
}

}  // namespace

std::string_view launcher_name(std::string_view source) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNames{{{"environment", "the environment"},
                                                                                 {"pmix", "PMIx"},
                                                                                 {"ompi", "Open MPI's mpirun"},
                                                                                 {"pmi", "the PMI launcher"},
                                                                                 {"slurm", "Slurm"},
                                                                                 {"spank", "Slurm"}}};
  for (const auto& [name, shown] : kNames) {
    if (name == source) {
      return shown;
    }
  }
  return "a single process";
}

void adopt_layout(const StepLayout& layout, JobFacts& facts) {
  const bool sizes_agree = layout.hosts.size() == facts.num_nodes && layout.tasks_per_node.size() == facts.num_nodes &&
                           sum(layout.tasks_per_node) == facts.world_size;
  if (!sizes_agree) {
    return;
  }
  facts.hosts = layout.hosts;
  facts.tasks_per_node = layout.tasks_per_node;
  facts.component_nodes = layout.component_nodes;
  if (!layout.head_host.empty()) {
    facts.head_host = layout.head_host;
    facts.head_known_to_all = true;
  }
  facts.local_world_size = layout.tasks_per_node[facts.node_rank];
}

std::optional<std::int64_t> parse_time_left(std::string_view text) {
  constexpr std::int64_t kHoursPerDay = 24;
  constexpr std::int64_t kSixty = 60;
  std::int64_t seconds = 0;
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto days = parse_integer<std::uint32_t>(text.substr(0, dash));
    if (!days) {
      return std::nullopt;
    }
    seconds = *days * kHoursPerDay;  // in hours; the loop below converts it
    text.remove_prefix(dash + 1);
  }
  const auto parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3 || (dash != std::string_view::npos && parts.size() != 3)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto number = parse_integer<std::uint32_t>(parts[i]);
    if (!number) {
      return std::nullopt;
    }
    seconds = i == 0 ? seconds + *number : seconds * kSixty + *number;
  }
  return seconds;
}

std::string job_name_for_slurm(const Environment& environment) {
  const std::string job = environment.get_non_empty(env::kSlurmJobId).value_or("");
  const auto element = environment.get_non_empty(env::kSlurmArrayTaskId);
  return element && environment.get_non_empty(env::kSlurmArrayJobId) == job ? job + "_" + *element : job;
}

std::optional<double> ask_job_end_time(const Environment& environment, double now) {
  const std::string job = job_name_for_slurm(environment);
  if (job.empty()) {
    return std::nullopt;
  }
  constexpr std::chrono::seconds kPatience{10};  // a busy slurmctld answers late; training waits for it
  const Result<std::string> answer =
      output_of({"squeue", "--noheader", "--format=%L", "--jobs=" + job}, environment, kPatience);
  const auto left = parse_time_left(answer ? trim(*answer) : "");
  return left ? std::optional(now + static_cast<double>(*left)) : std::nullopt;
}

std::optional<double> job_end_time(const Environment& environment, double now) {
  if (const auto end = parse_integer<std::uint32_t>(environment.get(env::kSlurmJobEndTime).value_or(""))) {
    return static_cast<double>(*end);
  }
  return ask_job_end_time(environment, now);
}

}  // namespace rollcall::job
