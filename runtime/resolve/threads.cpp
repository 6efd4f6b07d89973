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

/// The CPUs that this task may count on. Where the step does not bind CPUs, all tasks of a node see all of them: then
/// what Slurm promised per task counts, or an equal share.
Threads automatic(const Inputs& inputs) {
  const std::uint32_t bound = std::max(1U, inputs.cpus_of_task);
  const auto number = [&](std::string_view name) {
    return parse_integer<std::uint32_t>(inputs.user.get(name).value_or("")).value_or(0);
  };
  const std::uint32_t per_task = number(env::kSlurmCpusPerTask);
  if (per_task > 0 && per_task < bound) {
    return {per_task, "SLURM_CPUS_PER_TASK"};
  }
  const std::uint32_t tasks = std::max(1U, inputs.facts.local_world_size);
  const std::uint32_t on_node = number(env::kSlurmCpusOnNode);
  if (per_task == 0 && tasks > 1 && on_node > 0 && bound >= on_node) {
    return {std::max(1U, on_node / tasks), fmt::format("{} CPUs shared by {} unbound tasks", on_node, tasks)};
  }
  return {bound, fmt::format("the task may run on {} CPU{}", bound, bound == 1 ? "" : "s")};
}

}  // namespace

Result<void> add_threads(const Inputs& inputs, PatchBuilder& patch) {
  constexpr std::string_view kSetting = "threads";
  const std::string& text = inputs.settings.text(kSetting);
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
