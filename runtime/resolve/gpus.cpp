#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/groups.h"

namespace rollcall::resolve {
namespace {

bool is_subset(const std::vector<std::string>& part, const std::vector<std::string>& whole) {
  return std::all_of(part.begin(), part.end(),
                     [&](const std::string& gpu) { return std::find(whole.begin(), whole.end(), gpu) != whole.end(); });
}

struct NodeGpus {
  std::string list;
  std::string_view source;
};

/// Where Slurm gives each task GPUs of its own, SLURM_STEP_GPUS holds in a task only that task's. SLURM_GPUS_ON_NODE
/// tells: it counts those of the step. Then the job's on this node are the best that is known.
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
        "gpus.visible: node: nothing in the task's environment names all GPUs of the step on this node "
        "(SLURM_STEP_GPUS, SLURM_JOB_GPUS); try srun --ddp");
    return;
  }
  // A value that Slurm itself gave is a part of the node's; anything else the user wrote.
  const auto own = inputs.user.get_non_empty(env::kCudaVisible);
  if (own && !is_subset(split(*own, ','), split(node->list, ','))) {
    patch.keep(env::kCudaVisible, *own, true);
    patch.warn(
        fmt::format("CUDA_VISIBLE_DEVICES: {}: is kept because you set it, though gpus.visible=node would give {}",
                    *own, node->list));
    return;
  }
  patch.set_unmarked({std::string(env::kCudaVisible), node->list, Action::Set, "setting gpus.visible",
                      fmt::format("all GPUs of the step on this node ({})", node->source)});
}

}  // namespace

Result<void> add_gpus(const Inputs& inputs, PatchBuilder& patch) {
  if (inputs.settings.text("gpus.visible") == "node") {
    show_gpus_of_node(inputs, patch);
  }
  if (const std::string& list = inputs.settings.text("gpus.architectures"); !list.empty()) {
    patch.propose({env::kCudaArchitectures, list, "setting gpus.architectures", "as configured", "gpus.architectures"});
  }
  return {};
}

}  // namespace rollcall::resolve
