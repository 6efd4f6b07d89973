#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/torch.h"

namespace rollcall::optim {

/// What the optimizer is made from. The fields of other kinds are not used.
struct OptimizerOptions {
  std::string name = "adamw";  ///< of kOptimizers
  double learning_rate = 3e-4;
  double weight_decay = 0.01;
  double momentum = 0.9;  ///< sgd
  bool nesterov = false;  ///< sgd
  double beta1 = 0.9;     ///< adamw
  double beta2 = 0.999;   ///< adamw
  double eps = 1e-8;      ///< adamw
};

/// How the learning rate grows with the number of ranks, and with it the global batch.
enum class LearningRateScaling {
  Linear,      ///< times W (Goyal et al. 2017)
  SquareRoot,  ///< times the square root of W
  None,
};

/// "linear", "sqrt" or "none". Errors (Usage): anything else.
[[nodiscard]] Result<LearningRateScaling> parse_learning_rate_scaling(std::string_view text);

/// The learning rate for `world_size` >= 1 ranks. Pure.
[[nodiscard]] double scaled_learning_rate(double learning_rate, LearningRateScaling scaling, std::uint32_t world_size);

/// AdamW's parameters for a batch `world_size` times as large, by the square-root rule of "On the SDEs and Scaling
/// Rules for Adaptive Gradient Algorithms" (Malladi et al. 2022, arXiv 2205.10287): learning rate * sqrt(W), beta -> 1
/// - W (1 - beta), eps / sqrt(W). It replaces scaled_learning_rate(): apply one of both. Pure.
///
/// Errors (Usage): an optimizer other than adamw; so many ranks that a beta would not stay above 0 (beta1 = 0.9: 10
/// ranks).
[[nodiscard]] Result<OptimizerOptions> scale_optim_params(const OptimizerOptions& options, std::uint32_t world_size);

/// An optimizer over `parameters` (named_parameters() of a module). Two parameter groups: first those
/// with weight decay, then the rest, that is biases and the weights of norms (everything with fewer than two
/// dimensions); a group that would be empty is left out. The optimizer holds the tensors, not copies.
///
/// Errors (Usage): unknown name, a number outside its range, Nesterov without momentum.
[[nodiscard]] Result<std::unique_ptr<torch::optim::Optimizer>> make_optimizer(
    const OptimizerOptions& options, const torch::OrderedDict<std::string, at::Tensor>& parameters);

/// A copy of each parameter group's options.
using Options = std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>;
[[nodiscard]] Options options_of(const torch::optim::Optimizer& optimizer);
/// Gives the groups what options_of() said of this optimizer; it may have loaded others since.
void set_options(torch::optim::Optimizer& optimizer, const Options& options);

/// Sets the learning rate of all parameter groups to the float32 next to it, which is what a device's fused optimizers
/// take; takes effect at the next step().
void set_learning_rate(torch::optim::Optimizer& optimizer, double learning_rate);

}  // namespace rollcall::optim
