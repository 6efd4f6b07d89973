#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/job/marker.h"
#include "runtime/network/network_view.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::resolve {

/// What one group of variables would like to set.
struct Proposal {
  std::string_view name;
  std::string value;
  std::string origin;
  std::string reason;
  std::string_view setting = "";  ///< the setting that shapes the value; empty: only facts do
  /// Of a variable that tells a task or its node from others: what the first task of this node has.
  std::optional<std::string> firsts{};
};

/// Collects the patch, and is the one place that decides between ours, the user's and an enclosing rollcall's value:
/// - the user's value is kept; a warning says what we would have set where it differs;
/// - but where it tells tasks of Slurm's apart (LOCAL_RANK, NODE_RANK) and is not this task's: it was exported before
///   srun, for all tasks alike, and is replaced, with a warning of the first such task of the node;
/// - the value of a rollcall that encloses this one in the same step (`srun --ddp` around `rollcall exec` or
///   the trainer) is kept where this one's setting is at its default: the enclosing one may know the site better;
/// - everything else that an outer rollcall set is stale: replaced, or removed by finish(), as is what a launcher
///   around the step told its ranks.
class PatchBuilder {
 public:
  /// The references must outlive the builder.
  PatchBuilder(const job::JobFacts& facts, const settings::LaunchSettings& settings, const Environment& user);

  [[nodiscard]] std::optional<std::string> users(std::string_view name) const;
  /// The enclosing rollcall's value of the same step.
  [[nodiscard]] std::optional<std::string> enclosing(std::string_view name) const;
  /// The same where it is to be kept under the rule above.
  [[nodiscard]] std::optional<std::string> inherited(std::string_view name, std::string_view setting) const;

  /// Whether a rollcall that encloses this one saw the same ranks: its endpoint is then this one's, too. It is not
  /// where one of them made each component of a het step a world of its own, or where mpirun stands between them.
  [[nodiscard]] bool same_world() const { return same_world_; }

  void propose(const Proposal& proposal);
  /// Keeps the user's or the enclosing rollcall's value, with no proposal to compare it with.
  void keep(std::string_view name, const std::string& value, bool of_user);
  /// A change that no marker remembers: PATH, which is extended and not replaced, and CUDA_VISIBLE_DEVICES, which Slurm
  /// sets anew in every step.
  void set_unmarked(EnvChange change) { patch_.changes.push_back(std::move(change)); }
  void warn(std::string text) { patch_.warnings.push_back(std::move(text)); }
  void warn_of_this_node(std::string text) { patch_.node_warnings.push_back(std::move(text)); }

  /// What was decided about `name` so far, or null. Valid until the next change.
  [[nodiscard]] const EnvChange* find(std::string_view name) const { return patch_.find(name); }

  /// Removes stale values, writes the marker, hands the patch out.
  [[nodiscard]] EnvPatch finish() &&;

 private:
  void remove_stale();
  void remove_what_outer_launchers_told();
  void replace(const Proposal& proposal, const std::string& users);
  void set(const Proposal& proposal);

  const job::JobFacts& facts_;
  const settings::LaunchSettings& settings_;
  const Environment& user_;
  job::Marker outer_;
  std::string step_;
  bool same_step_ = false;
  bool same_world_ = false;
  EnvPatch patch_;
  job::Marker ours_;
};

/// What resolve() was given; the references live as long as the call.
struct Inputs {
  const job::JobFacts& facts;
  const settings::LaunchSettings& settings;
  const network::NetworkView& network;
  const Environment& user;
  std::uint32_t cpus_of_task;
};

/// Keeps a value that needs no looking for: the user's, or that of the enclosing rollcall, which alone may know where
/// rank 0 is (the plugin asks slurmctld).
[[nodiscard]] bool keep_known(std::string_view name, std::string_view setting, const Inputs& inputs,
                              PatchBuilder& patch);

// One function for each group of variables; resolve() calls them in its order. Each adds its changes and warnings.

/// RANK, WORLD_SIZE, LOCAL_RANK and their kin for torchrun, Lightning and DeepSpeed. Error (Mismatch): the user's RANK
/// or WORLD_SIZE contradicts the step.
[[nodiscard]] Result<void> add_ranks(const Inputs& inputs, PatchBuilder& patch);
[[nodiscard]] Result<void> add_master_address(const Inputs& inputs, PatchBuilder& patch);
[[nodiscard]] Result<void> add_master_port(const Inputs& inputs, PatchBuilder& patch);
/// ACCELERATE_USE_CPU; after add_gpus. Warns where LOCAL_RANK is no number of a GPU that the task sees.
[[nodiscard]] Result<void> add_accelerate(const Inputs& inputs, PatchBuilder& patch);
/// What JAX reads; after add_master_* and add_gpus, for it follows from what they decided.
[[nodiscard]] Result<void> add_jax(const Inputs& inputs, PatchBuilder& patch);
/// GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, UCX_NET_DEVICES, NCCL_NET.
[[nodiscard]] Result<void> add_interfaces(const Inputs& inputs, PatchBuilder& patch);
/// The options of torchrun that follow from the step, where one task a node could be a torchrun; after add_master_* and
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
