#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"

namespace rollcall::parallel {

/// A model that the ranks of a group train together. They divide the batch among them (DataParallel, also for a world
/// of one), or also the model's parameters (ShardedReplica). The training loop knows only this interface.
///
/// Main thread only. Every rank calls the collective functions in the same order. forward(), the backward() of its
/// result and evaluate() throw what LibTorch throws: a lost peer is a c10::DistError or a std::runtime_error of Gloo.
class Replica {
 public:
  using Loss = std::function<at::Tensor()>;  ///< runs the module on a batch and returns the scalar loss

  Replica() = default;
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  virtual ~Replica() = default;

  /// Returns the tensors for the optimizer to update, by the names of the model's state dict. They stay the same ones.
  [[nodiscard]] virtual torch::OrderedDict<std::string, at::Tensor> named_parameters() const = 0;

  /// Returns the type in which the model takes its images.
  [[nodiscard]] virtual at::ScalarType input_type() const { return at::kFloat; }

  /// Runs `loss` and makes the next backward() average the gradients over the ranks. Call backward() on the result
  /// once, before the next forward(). Collective, as is that backward().
  [[nodiscard]] virtual at::Tensor forward(const Loss& loss) = 0;

  /// Runs `outputs`, which calls the module, without recording gradients. Collective.
  [[nodiscard]] virtual at::Tensor evaluate(const Loss& outputs) = 0;

  /// Sets whether the next forward() and backward() average gradients over the ranks; on by default. While off,
  /// gradients add up on this rank until a backward() with it on averages the sum (gradient accumulation; DDP's
  /// no_sync, FSDP2's set_requires_gradient_sync). All ranks set it alike. A step ends with a backward() with it on.
  virtual void set_gradient_sync(bool sync) = 0;

  /// Clears the gradients. Call it before each forward(), except while gradients of several batches add up.
  virtual void zero_grad() = 0;

  /// Completes the averaging of gradients. Call it after the last backward() of a step, also on a rank that had none.
  /// Collective. Throws as forward() does.
  virtual void finish_gradients() {}

  /// Scales the gradients so that their common 2-norm, over all parameters and ranks, is at most `max_norm` > 0. Call
  /// it after backward(). Returns the norm before, one float64 on the gradients' device, for which the host does not
  /// wait. Collective. Throws as forward() does.
  virtual at::Tensor clip_grad_norm(double max_norm) = 0;

  /// Runs one forward and backward before the first step, which settles DataParallel's buckets; the batch may be as
  /// small as you like. Leaves parameters, buffers, gradients (0) and the default random generator unchanged.
  /// Collective. Errors (Unavailable): a peer was lost.
  [[nodiscard]] virtual Result<void> warm_up(const Loss& loss) = 0;

  /// Returns the indices of the parameters that take gradients, in the order in which their gradients arrived in
  /// warm_up() on this rank. Another replica of the same model that is made with rank 0's order settles as this one
  /// did. Empty if no order is needed, or before warm_up().
  [[nodiscard]] virtual std::vector<std::int64_t> gradient_order() const { return {}; }

  /// Broadcasts rank 0's buffers (BatchNorm statistics), before validation or a checkpoint. Collective.
  [[nodiscard]] virtual Result<void> sync_buffers() = 0;

  // The following functions are for sharded parameters: in the optimizer, and in checkpoints.

  /// Adds up `sums` over the ranks that together hold the module's parameters, in place. Collective. Throws as
  /// forward() does.
  virtual void add_over_shards(at::Tensor& /*sums*/) const {}

  /// Returns whether named_parameters() are only parts of the module's.
  [[nodiscard]] virtual bool is_sharded() const { return false; }
  /// Returns this rank's part of parameter `name`, which may be any of its names; undefined if it is not sharded.
  [[nodiscard]] virtual at::Tensor shard(const std::string& /*name*/) const { return {}; }
  /// Returns the index in dimension 0 of the whole parameter at which shard(name) begins.
  [[nodiscard]] virtual std::int64_t first_row(const std::string& /*name*/) const { return 0; }
  /// Returns whether this rank is the first of the ranks that hold the same parts.
  [[nodiscard]] virtual bool is_first_of_replicas() const { return true; }
  /// Returns the whole tensor of which `part` is this rank's part: parameter `name`, or an optimizer's state for it. On
  /// rank 0; undefined elsewhere. Collective. Throws as forward() does.
  [[nodiscard]] virtual at::Tensor gather(const std::string& /*name*/, const at::Tensor& part) const { return part; }
  /// Returns this rank's part of a tensor of parameter `name`'s shape.
  [[nodiscard]] virtual at::Tensor part_of(const std::string& /*name*/, const at::Tensor& whole) const { return whole; }
};

// The following functions are shared by all kinds of Replica.

/// Checks that all ranks have parameters of the same names, shapes, types and strides. Errors: (Mismatch) they differ;
/// every rank returns the same error, which names the first difference; (Unavailable) a peer was lost. Collective;
/// `group` is not null.
[[nodiscard]] Result<void> verify_same_model(const torch::nn::Module& module, const process_group::Group& group);

/// Broadcasts rank 0's values. Collective; `group` is not null. Throws what c10d throws.
void broadcast_values(const std::vector<at::Tensor>& tensors, const process_group::Group& group);

/// Returns copies that are detached from autograd.
[[nodiscard]] std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors);
/// Copies `values` into as many `tensors` of the same shapes.
void copy_values(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& values);

/// Scales the gradients of `parameters` so that their common 2-norm is at most `max_norm` > 0, as torch's
/// clip_grad_norm_ does. Sums are taken in float64, so that another division of the work makes no difference in
/// float32. Parameters are on one device, for which the group has a backend. `group` has the ranks whose gradients
/// belong to one model; null if this rank has all. Returns the norm before, one float64 on the gradients' device, for
/// which the host does not wait. Collective over `group`. Throws what c10d throws.
at::Tensor clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                          const process_group::Group& group);

}  // namespace rollcall::parallel
