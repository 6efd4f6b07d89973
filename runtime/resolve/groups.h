#pragma once

#include <cstdint>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"
#include "runtime/resolve/patch_builder.h"
#include "runtime/settings/settings.h"

namespace rollcall::resolve {

/// What resolve() was given; the references live as long as the call.
struct Inputs {
  const job::JobFacts& facts;
  const settings::Settings& settings;
  const network::NetworkView& network;
  const Environment& user;
  std::uint32_t cpus_of_task;
};

// One function and file per group of variables; resolve() calls them in this order. Each adds its changes and warnings.

/// RANK, WORLD_SIZE, LOCAL_RANK and their kin for torchrun, Lightning and DeepSpeed. Error (Mismatch): the user's RANK
/// or WORLD_SIZE contradicts the step.
[[nodiscard]] Result<void> add_ranks(const Inputs& inputs, PatchBuilder& patch);
/// MASTER_ADDR, MASTER_PORT.
[[nodiscard]] Result<void> add_master(const Inputs& inputs, PatchBuilder& patch);
/// What JAX reads; after add_master and add_gpus, for it follows from what they decided.
[[nodiscard]] Result<void> add_jax(const Inputs& inputs, PatchBuilder& patch);
/// GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, UCX_NET_DEVICES, NCCL_NET.
[[nodiscard]] Result<void> add_interfaces(const Inputs& inputs, PatchBuilder& patch);
/// The options of torchrun that follow from the step, where one task a node could be a torchrun; after add_master and
/// add_interfaces.
[[nodiscard]] Result<void> add_torchrun(const Inputs& inputs, PatchBuilder& patch);
/// OMP_NUM_THREADS; warns where the task got fewer CPUs than the job asked for.
[[nodiscard]] Result<void> add_threads(const Inputs& inputs, PatchBuilder& patch);
/// CUDA_VISIBLE_DEVICES under gpus.visible=node, TORCH_CUDA_ARCH_LIST.
[[nodiscard]] Result<void> add_gpus(const Inputs& inputs, PatchBuilder& patch);
/// Caches, by the policy of each. A folder that cannot be named is a warning: a cache is no reason to end a step.
[[nodiscard]] Result<void> add_caches(const Inputs& inputs, PatchBuilder& patch);
/// PATH and VIRTUAL_ENV.
[[nodiscard]] Result<void> add_venv(const Inputs& inputs, PatchBuilder& patch);
/// What the site or the user adds by the setting `variables`. Errors (Configuration): no NAME=VALUE; a variable of
/// rollcall's own table, which other settings shape.
[[nodiscard]] Result<void> add_variables(const Inputs& inputs, PatchBuilder& patch);
/// The frameworks' own diagnostics.
[[nodiscard]] Result<void> add_debug(const Inputs& inputs, PatchBuilder& patch);

}  // namespace rollcall::resolve
