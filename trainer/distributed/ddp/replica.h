#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"

namespace rollcall::parallel {

/// A model that the ranks of a group train together, whatever they divide among them: the batch alone (DataParallel,
/// also for a world of one) or the model's parameters as well (ShardedReplica). The training loop knows only this.
///
/// Main thread only. What is called collective, every rank calls in the same order. forward(), the backward() of what
/// it returns and evaluate() throw what LibTorch throws: a lost peer is a c10::DistError or a std::runtime_error of
/// Gloo's.
class Replica {
 public:
  using Loss = std::function<at::Tensor()>;  ///< runs the module on a batch and returns the scalar loss

  Replica() = default;
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  virtual ~Replica() = default;

  /// What an optimizer is to update, under the names of the model's state dict; the tensors stay the same ones.
  [[nodiscard]] virtual torch::OrderedDict<std::string, at::Tensor> named_parameters() const = 0;

  /// The type that the model wants its images in.
  [[nodiscard]] virtual at::ScalarType input_type() const { return at::kFloat; }

  /// Runs `loss` and makes the next backward() average the gradients over the ranks. Call backward() on what it
  /// returns, once, before the next forward(). Collective, as is that backward().
  [[nodiscard]] virtual at::Tensor forward(const Loss& loss) = 0;

  /// Runs `outputs`, which calls the module, without recording gradients. Collective.
  [[nodiscard]] virtual at::Tensor evaluate(const Loss& outputs) = 0;

  /// Whether the next forward() and backward() average gradients over the ranks, as they do at first. Off: gradients
  /// add up on this rank until a backward() with it on averages the sum (gradient accumulation; DDP's no_sync, FSDP2's
  /// set_requires_gradient_sync). All ranks alike; what lies between two backwards with it on is one step.
  virtual void set_gradient_sync(bool sync) = 0;

  /// Before each forward(), except while gradients of several batches are to add up.
  virtual void zero_grad() = 0;

  /// After the last backward() of a step, also where this rank had none: what backward() left to do until gradients are
  /// averaged. Collective. Throws as forward() does.
  virtual void finish_gradients() {}

  /// After backward(): scales the gradients so that their common 2-norm, over all parameters and ranks, is at most
  /// `max_norm` > 0. Returns the norm that they had, one float64 where they are: on a device the host does not wait for
  /// it. Collective. Throws as forward() does.
  virtual at::Tensor clip_grad_norm(double max_norm) = 0;

  /// One forward and backward before the first step, for what settles only then (DataParallel's buckets): any batch, as
  /// small as you like. Leaves parameters, buffers, gradients (0) and the default random generator as they were.
  /// Collective. Errors (Unavailable): a peer was lost.
  [[nodiscard]] virtual Result<void> warm_up(const Loss& loss) = 0;

  /// The parameters that take gradients, by their places among each other, in the order in which warm_up() saw their
  /// gradients arrive on this rank. Another replica of the same model that is made with rank 0's order settles as this
  /// one did. Empty: nothing needs it, or warm_up() is to be called.
  [[nodiscard]] virtual std::vector<std::int64_t> gradient_order() const { return {}; }

  /// Gives every rank rank 0's buffers (BatchNorm statistics): before validation or a checkpoint. Collective.
  [[nodiscard]] virtual Result<void> sync_buffers() = 0;

  // For checkpoints, where parameters are divided.

  /// Whether named_parameters() are only parts of the module's.
  [[nodiscard]] virtual bool is_sharded() const { return false; }
  /// This rank's part of parameter `name`, by any of its names; undefined where it is not divided.
  [[nodiscard]] virtual at::Tensor shard(const std::string& /*name*/) const { return {}; }
  /// Where in dimension 0 of the whole parameter it begins.
  [[nodiscard]] virtual std::int64_t first_row(const std::string& /*name*/) const { return 0; }
  /// Whether this rank is the first of those that hold the same parts.
  [[nodiscard]] virtual bool is_first_of_replicas() const { return true; }
  /// The whole of which `part` is this rank's: parameter `name`, or an optimizer's state for it. On rank 0; undefined
  /// elsewhere. Collective. Throws as forward() does.
  [[nodiscard]] virtual at::Tensor gather(const std::string& /*name*/, const at::Tensor& part) const { return part; }
  /// This rank's part of a tensor of parameter `name`'s shape.
  [[nodiscard]] virtual at::Tensor part_of(const std::string& /*name*/, const at::Tensor& whole) const { return whole; }
};

// What every kind of Replica begins with and needs.

/// Checks that all ranks have parameters of the same names, shapes, types and strides. Errors: (Mismatch) they do not;
/// the same error on every rank, which names the first difference; (Unavailable) a peer was lost. Collective;
/// `group` is not null.
[[nodiscard]] Result<void> verify_same_model(const torch::nn::Module& module, const process_group::Group& group);

/// Gives every rank rank 0's values. Collective; `group` is not null. Throws what c10d throws.
void broadcast_values(const std::vector<at::Tensor>& tensors, const process_group::Group& group);

/// Copies that gradients do not flow through.
[[nodiscard]] std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors);
/// Gives `tensors` the values of as many others, of the same shapes.
void copy_values(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& values);

/// Scales the gradients of `parameters` so that their common 2-norm is at most `max_norm` > 0, as torch's
/// clip_grad_norm_ does; sums are taken in float64, so that dividing the work otherwise changes nothing that float32
/// shows. Parameters are on one device, which the group has a backend for. `group`: the ranks whose gradients belong
/// to one model; null where this rank has all. Returns the norm before, one float64 where the gradients are, for which
/// the host does not wait on a device. Collective over `group`. Throws what c10d throws.
at::Tensor clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                          const process_group::Group& group);

}  // namespace rollcall::parallel
