#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/patch_builder.h"

namespace rollcall::resolve {
namespace {

struct Threads {
  std::uint32_t count = 1;
  std::string reason;
};

std::uint32_t number(const Inputs& inputs, std::string_view name) {
  return parse_integer<std::uint32_t>(inputs.user.get(name).value_or("")).value_or(0);
}

/// Warns where the step has fewer CPUs per task than the job. Since Slurm 22.05 srun does not inherit --cpus-per-task
/// from sbatch, and a step then silently has one CPU per task. SLURM_CPUS_PER_TASK still has sbatch's value.
void warn_of_lost_cpus(const Inputs& inputs, PatchBuilder& patch) {
  const std::uint32_t asked = number(inputs, env::kSlurmCpusPerTask);
  const std::uint32_t on_node = number(inputs, env::kSlurmCpusOnNode);
  const std::uint64_t wanted = std::uint64_t{asked} * std::max(1U, inputs.facts.local_world_size);
  const bool too_few_on_node = on_node > 0 && wanted > on_node;
  const bool bound_to_fewer = inputs.cpus_of_task < asked && inputs.cpus_of_task == 1;
  if (too_few_on_node || bound_to_fewer) {
    patch.warn(
        fmt::format("SLURM_CPUS_PER_TASK: {}: a task of this step has {}, because srun does not inherit "
                    "--cpus-per-task from sbatch; try export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun",
                    asked, counted(inputs.cpus_of_task, "CPU")));
  }
}

/// Returns the number of CPUs of this task. In a step that does not bind CPUs, all tasks of a node see all CPUs; then
/// it is Slurm's number per task, or an equal share.
Threads automatic(const Inputs& inputs) {
  const std::uint32_t bound = std::max(1U, inputs.cpus_of_task);
  const std::uint32_t per_task = number(inputs, env::kSlurmCpusPerTask);
  if (per_task > 0 && per_task < bound) {
    return {per_task, "SLURM_CPUS_PER_TASK"};
  }
  const std::uint32_t tasks = std::max(1U, inputs.facts.local_world_size);
  const std::uint32_t on_node = number(inputs, env::kSlurmCpusOnNode);
  if (per_task == 0 && tasks > 1 && on_node > 0 && bound >= on_node) {
    return {std::max(1U, on_node / tasks),
            fmt::format("{} shared by {} unbound tasks", counted(on_node, "CPU"), tasks)};
  }
  return {bound, "the task may run on " + counted(bound, "CPU")};
}

bool is_subset(const std::vector<std::string>& part, const std::vector<std::string>& whole) {
  return std::all_of(part.begin(), part.end(),
                     [&](const std::string& gpu) { return std::find(whole.begin(), whole.end(), gpu) != whole.end(); });
}

struct NodeGpus {
  std::string list;
  std::string_view source;
};

/// Returns the step's GPUs on this node. Where Slurm gives each task its own GPUs, SLURM_STEP_GPUS has only the task's,
/// fewer than SLURM_GPUS_ON_NODE, which counts those of the step. Then the job's GPUs on this node are used.
std::optional<NodeGpus> gpus_of_node(const Inputs& inputs) {
  if (!inputs.facts.step_gpus.empty()) {
    return NodeGpus{inputs.facts.step_gpus, env::kSlurmStepGpus};
  }
  const auto count = parse_integer<std::size_t>(inputs.user.get(env::kSlurmGpusOnNode).value_or(""));
  for (const std::string_view name : {env::kSlurmStepGpus, env::kSlurmJobGpus}) {
    const auto list = inputs.user.get_non_empty(name);
    if (list && split(*list, ',').size() >= count.value_or(0)) {
      return NodeGpus{*list, name};
    }
  }
  return std::nullopt;
}

void show_gpus_of_node(const Inputs& inputs, PatchBuilder& patch) {
  const std::optional<NodeGpus> node = gpus_of_node(inputs);
  if (!node) {
    patch.warn(
        "gpus.visible: node: neither SLURM_STEP_GPUS nor SLURM_JOB_GPUS names all GPUs of the step on this node; try "
        "srun --ddp");
    return;
  }
  // Slurm's own value is a subset of the node's GPUs. Any other value is the user's.
  const auto own = inputs.user.get_non_empty(env::kCudaVisible);
  if (own && !is_subset(split(*own, ','), split(node->list, ','))) {
    patch.keep(env::kCudaVisible, *own, true);
    patch.warn(fmt::format("CUDA_VISIBLE_DEVICES: {}: is kept because you set it; gpus.visible=node would set {}", *own,
                           node->list));
    return;
  }
  patch.set_unmarked({std::string(env::kCudaVisible), node->list, Action::Set, "setting gpus.visible",
                      fmt::format("all GPUs of the step on this node ({})", node->source)});
}

}  // namespace

Result<void> add_threads(const Inputs& inputs, PatchBuilder& patch) {
  constexpr std::string_view kThreads = "threads";
  warn_of_lost_cpus(inputs, patch);
  if (inputs.settings.keep_threads) {
    return {};
  }
  if (const auto& number = inputs.settings.threads) {
    patch.propose({env::kOmpThreads, std::to_string(*number), "setting threads", "as configured", kThreads});
    return {};
  }
  const Threads threads = automatic(inputs);
  patch.propose({env::kOmpThreads, std::to_string(threads.count), "cpus", threads.reason, kThreads});
  return {};
}

Result<void> add_gpus(const Inputs& inputs, PatchBuilder& patch) {
  if (inputs.settings.all_gpus_of_node) {
    show_gpus_of_node(inputs, patch);
  }
  if (const std::string& list = inputs.settings.gpu_architectures; !list.empty()) {
    patch.propose({"TORCH_CUDA_ARCH_LIST", list, "setting gpus.architectures", "as configured", "gpus.architectures"});
  }
  return {};
}

}  // namespace rollcall::resolve
