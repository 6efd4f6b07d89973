#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/groups.h"

namespace rollcall::resolve {
namespace {

struct Threads {
  std::uint32_t count = 1;
  std::string reason;
};

std::uint32_t number(const Inputs& inputs, std::string_view name) {
  return parse_integer<std::uint32_t>(inputs.user.get(name).value_or("")).value_or(0);
}

/// Since Slurm 22.05 srun does not take --cpus-per-task from sbatch: the step then has one CPU a task, and nothing
/// tells but the speed. SLURM_CPUS_PER_TASK still says what sbatch was asked for.
void warn_of_lost_cpus(const Inputs& inputs, PatchBuilder& patch) {
  const std::uint32_t asked = number(inputs, env::kSlurmCpusPerTask);
  const std::uint32_t on_node = number(inputs, env::kSlurmCpusOnNode);
  const std::uint64_t wanted = std::uint64_t{asked} * std::max(1U, inputs.facts.local_world_size);
  const bool too_few_on_node = on_node > 0 && wanted > on_node;
  const bool bound_to_fewer = inputs.cpus_of_task < asked && inputs.cpus_of_task == 1;
  if (too_few_on_node || bound_to_fewer) {
    patch.warn(
        fmt::format("SLURM_CPUS_PER_TASK: {}: a task of this step has {} CPU{}: srun does not take --cpus-per-task "
                    "from sbatch; try "
                    "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun",
                    asked, inputs.cpus_of_task, inputs.cpus_of_task == 1 ? "" : "s"));
  }
}

/// The CPUs that this task may count on. Where the step does not bind CPUs, all tasks of a node see all of them: then
/// what Slurm promised per task counts, or an equal share.
Threads automatic(const Inputs& inputs) {
  const std::uint32_t bound = std::max(1U, inputs.cpus_of_task);
  const std::uint32_t per_task = number(inputs, env::kSlurmCpusPerTask);
  if (per_task > 0 && per_task < bound) {
    return {per_task, "SLURM_CPUS_PER_TASK"};
  }
  const std::uint32_t tasks = std::max(1U, inputs.facts.local_world_size);
  const std::uint32_t on_node = number(inputs, env::kSlurmCpusOnNode);
  if (per_task == 0 && tasks > 1 && on_node > 0 && bound >= on_node) {
    return {std::max(1U, on_node / tasks), fmt::format("{} CPUs shared by {} unbound tasks", on_node, tasks)};
  }
  return {bound, fmt::format("the task may run on {} CPU{}", bound, bound == 1 ? "" : "s")};
}

}  // namespace

Result<void> add_threads(const Inputs& inputs, PatchBuilder& patch) {
  constexpr std::string_view kSetting = "threads";
  const std::string& text = inputs.settings.text(kSetting);
  warn_of_lost_cpus(inputs, patch);
  if (text == "keep") {
    return {};
  }
  if (text != "auto") {
    patch.propose({env::kOmpThreads, text, "setting threads", "as configured", kSetting});
    return {};
  }
  const Threads threads = automatic(inputs);
  patch.propose({env::kOmpThreads, std::to_string(threads.count), "cpus", threads.reason, kSetting});
  return {};
}

}  // namespace rollcall::resolve
