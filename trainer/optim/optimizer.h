#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/torch.h"

namespace rollcall::optim {

/// Options of make_optimizer(). The options of other kinds are ignored.
struct OptimizerOptions {
  std::string name = "adamw";  ///< a name of kOptimizers
  double learning_rate = 3e-4;
  double weight_decay = 0.01;
  bool decay_all = false;  ///< weight decay applies to biases and norms as well
  double momentum = 0.9;   ///< for sgd, lars, rmsprop
  bool nesterov = false;   ///< for sgd
  double beta1 = 0.9;      ///< for adamw, lamb
  double beta2 = 0.999;    ///< for adamw, lamb
  double eps = 1e-8;       ///< for adamw, lamb, rmsprop
  double alpha = 0.99;     ///< for rmsprop
  double trust = 0.001;    ///< for lars
  /// Factors of the learning rate, above 0, by name of the parameter; others have 1.
  std::map<std::string, double> rate_factors = {};
  /// For lars, lamb: adds up numbers of all ranks that hold parts of the same parameters, in place. Empty: the
  /// parameters are whole.
  std::function<void(at::Tensor& sums)> add_up = {};
};

/// The rule by which the learning rate grows with the world size W, and so with the global batch.
enum class LearningRateScaling {
  Linear,      ///< multiplied by W (Goyal et al. 2017)
  SquareRoot,  ///< multiplied by the square root of W
  None,
};

/// Parses "linear", "sqrt" or "none". Errors (Usage): any other text.
[[nodiscard]] Result<LearningRateScaling> parse_learning_rate_scaling(std::string_view text);

/// Returns the learning rate for `world_size` >= 1 ranks. Pure.
[[nodiscard]] double scaled_learning_rate(double learning_rate, LearningRateScaling scaling, std::uint32_t world_size);

/// Returns AdamW's parameters for a batch `world_size` times as large, by the square-root rule of "On the SDEs and
/// Scaling Rules for Adaptive Gradient Algorithms" (Malladi et al. 2022, arXiv 2205.10287): learning rate * sqrt(W),
/// beta -> 1 - W (1 - beta), eps / sqrt(W). Use it instead of scaled_learning_rate(), not in addition. Pure.
///
/// Errors (Usage): the optimizer is not adamw; so many ranks that a beta would not stay above 0 (for beta1 = 0.9: 10
/// ranks).
[[nodiscard]] Result<OptimizerOptions> scale_optim_params(const OptimizerOptions& options, std::uint32_t world_size);

/// Makes an optimizer for `parameters` (named_parameters() of a module) with two parameter groups for each factor of
/// the learning rate, the largest first: the parameters with weight decay, then the rest, which are biases and the
/// weights of norms (everything with fewer than two dimensions) and decay only with `decay_all`. An empty group is left
/// out. The optimizer holds the tensors, not copies.
///
/// Errors (Usage): unknown name, a number outside its range, Nesterov without momentum.
[[nodiscard]] Result<std::unique_ptr<torch::optim::Optimizer>> make_optimizer(
    const OptimizerOptions& options, const torch::OrderedDict<std::string, at::Tensor>& parameters);

/// Copies of the parameter groups' options.
using Options = std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>;
[[nodiscard]] Options options_of(const torch::optim::Optimizer& optimizer);
/// Restores the options that options_of() returned for this optimizer; it may have loaded others since.
void set_options(torch::optim::Optimizer& optimizer, const Options& options);

/// Returns the factor of the learning rate of each group that make_optimizer() makes.
[[nodiscard]] std::vector<double> rate_factors_of_groups(const OptimizerOptions& options,
                                                         const torch::OrderedDict<std::string, at::Tensor>& parameters);

/// Sets the learning rate of each parameter group, times its factor (empty: 1), to the nearest float32, which a
/// device's fused optimizers use. It takes effect at the next step().
void set_learning_rate(torch::optim::Optimizer& optimizer, double learning_rate,
                       const std::vector<double>& factors = {});

}  // namespace rollcall::optim
