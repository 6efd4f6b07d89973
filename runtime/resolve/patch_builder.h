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

/// A proposed value of one variable.
struct Proposal {
  std::string_view name;
  std::string value;
  std::string origin;             ///< EnvChange::origin
  std::string reason;             ///< EnvChange::reason
  std::string_view setting = "";  ///< the setting that determines the value; empty: only facts do
  /// For a variable that differs between tasks or nodes: its value on the first task of this node.
  std::optional<std::string> firsts{};
};

/// Collects the patch. It alone decides between the proposed value, the user's value and an enclosing rollcall's value:
/// - The user's value is kept. A warning shows the proposed value where it differs.
/// - A user's value of a variable that differs between Slurm's tasks (LOCAL_RANK, NODE_RANK) is replaced where it is
/// not
///   this task's: it was exported before srun, for all tasks. The first such task of the node warns.
/// - The value of an enclosing rollcall in the same step (`srun --ddp` around `rollcall exec` or the trainer) is kept
///   where this one's setting has its default: the enclosing one may have the site's settings.
/// - Other values of an outer rollcall are stale. They are replaced, or removed by finish(), which also removes the
///   values of a launcher around the step.
class PatchBuilder {
 public:
  /// The references must outlive the builder.
  PatchBuilder(const job::JobFacts& facts, const settings::LaunchSettings& settings, const Environment& user);

  /// Returns the user's value.
  [[nodiscard]] std::optional<std::string> users(std::string_view name) const;
  /// Returns the value of an enclosing rollcall in the same step.
  [[nodiscard]] std::optional<std::string> enclosing(std::string_view name) const;
  /// Returns the value of an enclosing rollcall where the rules above keep it.
  [[nodiscard]] std::optional<std::string> inherited(std::string_view name, std::string_view setting) const;

  /// Returns whether an enclosing rollcall saw the same ranks, so that both have the same endpoint. That is not so
  /// where one of them made each component of a het step a world, or where mpirun runs between them.
  [[nodiscard]] bool same_world() const { return same_world_; }

  void propose(const Proposal& proposal);
  /// Keeps the user's or the enclosing rollcall's value without comparing it with a proposal.
  void keep(std::string_view name, const std::string& value, bool of_user);
  /// Adds a change that the marker does not record: PATH, which is extended, and CUDA_VISIBLE_DEVICES, which Slurm sets
  /// in every step.
  void set_unmarked(EnvChange change) { patch_.changes.push_back(std::move(change)); }
  void warn(std::string text) { patch_.warnings.push_back(std::move(text)); }
  void warn_of_this_node(std::string text) { patch_.node_warnings.push_back(std::move(text)); }

  /// Returns the change of `name` so far, or null. The pointer is valid until the next change.
  [[nodiscard]] const EnvChange* find(std::string_view name) const { return patch_.find(name); }

  /// Removes stale values, adds the marker and returns the patch.
  [[nodiscard]] EnvPatch finish() &&;

 private:
  void remove_stale();
  void remove_outer_launcher_values();
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

/// The arguments of resolve(); the references are valid during the call.
struct Inputs {
  const job::JobFacts& facts;
  const settings::LaunchSettings& settings;
  const network::NetworkView& network;
  const Environment& user;
  std::uint32_t cpus_of_task;
};

/// Keeps the user's value, or that of the enclosing rollcall, which may be the only one that knows where rank 0 is (the
/// plugin asks slurmctld). Returns whether there is one.
[[nodiscard]] bool keep_known(std::string_view name, std::string_view setting, const Inputs& inputs,
                              PatchBuilder& patch);

// Each of these functions adds the changes and warnings of one group of variables. resolve() calls them in its order.

/// Adds RANK, WORLD_SIZE, LOCAL_RANK and related variables of torchrun, Lightning and DeepSpeed. Error (Mismatch): the
/// user's RANK or WORLD_SIZE contradicts the step.
[[nodiscard]] Result<void> add_ranks(const Inputs& inputs, PatchBuilder& patch);
[[nodiscard]] Result<void> add_master_address(const Inputs& inputs, PatchBuilder& patch);
[[nodiscard]] Result<void> add_master_port(const Inputs& inputs, PatchBuilder& patch);
/// Adds ACCELERATE_USE_CPU, after add_gpus(). Warns where the task does not see a GPU with the number LOCAL_RANK.
[[nodiscard]] Result<void> add_accelerate(const Inputs& inputs, PatchBuilder& patch);
/// Adds the variables of JAX, which follow from add_master_*() and add_gpus().
[[nodiscard]] Result<void> add_jax(const Inputs& inputs, PatchBuilder& patch);
/// Adds GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, UCX_NET_DEVICES, NCCL_NET.
[[nodiscard]] Result<void> add_interfaces(const Inputs& inputs, PatchBuilder& patch);
/// Adds the options of torchrun for steps with one task per node, after add_master_*() and add_interfaces().
[[nodiscard]] Result<void> add_torchrun(const Inputs& inputs, PatchBuilder& patch);
/// Adds OMP_NUM_THREADS. Warns where the task got fewer CPUs than the job requested.
[[nodiscard]] Result<void> add_threads(const Inputs& inputs, PatchBuilder& patch);
/// Adds CUDA_VISIBLE_DEVICES under gpus.visible=node, and TORCH_CUDA_ARCH_LIST.
[[nodiscard]] Result<void> add_gpus(const Inputs& inputs, PatchBuilder& patch);
/// Adds the variables of caches by their policies. An invalid folder is only a warning.
[[nodiscard]] Result<void> add_caches(const Inputs& inputs, PatchBuilder& patch);
/// Adds PATH and VIRTUAL_ENV.
[[nodiscard]] Result<void> add_venv(const Inputs& inputs, PatchBuilder& patch);
/// Adds the variables of the setting `variables`. Errors (Configuration): an entry is not NAME=VALUE, or names a
/// variable of rollcall's table, which has another setting.
[[nodiscard]] Result<void> add_variables(const Inputs& inputs, PatchBuilder& patch);
/// Adds the frameworks' debug variables.
[[nodiscard]] Result<void> add_debug(const Inputs& inputs, PatchBuilder& patch);

}  // namespace rollcall::resolve
