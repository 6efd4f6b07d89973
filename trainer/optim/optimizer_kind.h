#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/optim/optimizer.h"
#include "trainer/torch.h"

namespace rollcall::optim {

using NamedParameters = torch::OrderedDict<std::string, at::Tensor>;

/// Receives an optimizer's state for one parameter by name: tensors of the parameter's shape, and numbers.
struct StateSink {
  std::function<void(const std::string& name, const at::Tensor& tensor)> tensor;
  std::function<void(const std::string& name, std::int64_t number)> number;
};

/// Provides an optimizer's state for one parameter by name; undefined or unset if nothing is stored under that name.
struct StateSource {
  std::function<at::Tensor(const std::string& name)> tensor;
  std::function<std::optional<std::int64_t>(const std::string& name)> number;
};

/// A tensor of a state.
struct StateTensor {
  const char* name;  ///< in Python's optimizer and in checkpoints
  at::Tensor& (*in)(torch::optim::OptimizerParamState& state);
  bool is_optional = false;
};

/// What a step updates: the parameters of a group that have non-empty gradients, and the tensors of their states.
struct GroupTensors {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<std::vector<at::Tensor>> states;  ///< by number of the tensor in ParameterState
};

/// What an optimizer keeps for each parameter: how it is made, saved, loaded and counted.
struct ParameterState {
  std::unique_ptr<torch::optim::OptimizerParamState> (*make)();
  std::int64_t& (*steps)(torch::optim::OptimizerParamState& state);  ///< null: steps are not counted
  std::span<const StateTensor> tensors;

  void save(torch::optim::OptimizerParamState& state, const StateSink& sink) const;
  /// Null if nothing is stored for the parameter (never a gradient). Throws c10::Error if a part is missing or damaged.
  [[nodiscard]] std::unique_ptr<torch::optim::OptimizerParamState> load(const StateSource& source) const;
  /// Adds steps, which may be negative, to the count of `state`.
  void count(torch::optim::OptimizerParamState& state, std::int64_t more) const;
  /// Returns tensor `number` of the parameter's state. It is made, of zeros, if it does not exist yet.
  at::Tensor& tensor(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, std::size_t number) const;
  /// Returns a group's tensors, of the states the first `count`.
  [[nodiscard]] GroupTensors group(torch::optim::Optimizer& optimizer, const torch::optim::OptimizerParamGroup& group,
                                   std::size_t count) const;
};

/// AdamW and LAMB have kAdamState, SGD and LARS kMomentumState, RMSprop kRmsPropState.
extern const ParameterState kAdamState, kMomentumState, kRmsPropState;

/// The tensors on the device that a step reads.
struct StepOnDevice {
  std::vector<at::Tensor>& steps;        ///< by group: number of steps of its parameters; made in the first step
  const std::vector<at::Tensor>& rates;  ///< by group: learning rate, [] float32
  const at::Tensor& non_finite;          ///< [1] float32: 1 if the step is skipped
};

/// The interface of one kind of optimizer.
struct OptimizerKind {
  std::string_view python_name;  ///< name of Python's class, which checkpoints store: "AdamW"
  const ParameterState& state;   ///< of each parameter

  /// Checks the options of this kind. Errors (Usage): one is outside its range.
  Result<void> (*check)(const OptimizerOptions& options);
  /// Makes an optimizer; see make_optimizer(). The options were checked.
  std::unique_ptr<torch::optim::Optimizer> (*make)(const OptimizerOptions& options, const NamedParameters& parameters);
  bool (*made)(const torch::optim::Optimizer& optimizer);  ///< returns whether `optimizer` is of this kind

  /// Returns a group's options by the names of Python's param_groups.
  nlohmann::ordered_json (*to_json)(const torch::optim::OptimizerOptions& options);
  /// Does the reverse of to_json. Throws nlohmann::json::exception if an option is missing.
  std::unique_ptr<torch::optim::OptimizerOptions> (*from_json)(const nlohmann::json& json);

  /// Enqueues one step on the device, for DeviceStep, which counts it.
  void (*step_on_device)(torch::optim::Optimizer& optimizer, const StepOnDevice& step);
};

/// A kind with its name in setting `optimizer`.
struct NamedKind {
  std::string_view name;
  const OptimizerKind* kind;
};

/// All kinds. A new one needs a file that defines it, its row here, and its settings in the trainer's table.
extern const OptimizerKind kAdamW, kSgd, kRmsProp, kLars, kLamb;
inline constexpr std::array kOptimizers{NamedKind{"adamw", &kAdamW}, NamedKind{"sgd", &kSgd},
                                        NamedKind{"rmsprop", &kRmsProp}, NamedKind{"lars", &kLars},
                                        NamedKind{"lamb", &kLamb}};

/// Returns the kind of `optimizer`; null if it is of no known kind.
[[nodiscard]] const OptimizerKind* kind_of(const torch::optim::Optimizer& optimizer);

// Helpers for the kinds.

/// Returns a number as text for messages.
[[nodiscard]] std::string number_text(double number);
/// Returns the shortest decimal for a learning rate that set_learning_rate() rounded to float32: 0.004, not
/// 0.004000000189989805. Returns one that is not a float32 unchanged.
[[nodiscard]] double as_written(double learning_rate);
/// Returns the parameters of a group that have non-empty gradients.
[[nodiscard]] std::vector<at::Tensor> with_gradients(const torch::optim::OptimizerParamGroup& group);
/// Returns whether `optimizer` is of class `Optimizer`.
template <typename Optimizer>
[[nodiscard]] bool is_a(const torch::optim::Optimizer& optimizer) {
  return dynamic_cast<const Optimizer*>(&optimizer) != nullptr;
}
/// Returns whether 0 <= number < 1.
[[nodiscard]] bool is_decay(double number);
/// Returns whether `number` is finite and not negative.
[[nodiscard]] bool is_non_negative(double number);

/// Checks OptimizerOptions::momentum. Errors (Usage): it is outside of its range.
[[nodiscard]] Result<void> check_momentum(const OptimizerOptions& options);

/// A parameter group of make_optimizer().
struct ParameterGroup {
  double rate_factor;
  double weight_decay;
  std::vector<at::Tensor> parameters;
};
[[nodiscard]] std::vector<ParameterGroup> groups_of(const NamedParameters& parameters, const OptimizerOptions& options);

/// Makes a LibTorch `Optimizer` with the parameter groups of make_optimizer(); `make_options` returns the kind's
/// options for a weight decay.
///
/// An optimizer's constructor takes group options that equal a default-constructed Options for unset, and replaces them
/// with its own defaults: AdamW's weight decay of 0.01 would become 0. So the groups' options are set once more.
template <typename Optimizer, typename MakeOptions>
std::unique_ptr<Optimizer> make_with_groups(const NamedParameters& parameters, const OptimizerOptions& wanted,
                                            const MakeOptions& make_options) {
  using GroupOptions = std::decay_t<decltype(make_options(0.0))>;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (ParameterGroup& group : groups_of(parameters, wanted)) {
    auto options = std::make_unique<GroupOptions>(make_options(group.weight_decay));
    options->set_lr(wanted.learning_rate * group.rate_factor);
    groups.emplace_back(std::move(group.parameters), std::move(options));
  }
  auto optimizer = std::make_unique<Optimizer>(groups, make_options(0));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    optimizer->param_groups()[i].set_options(groups[i].options().clone());
  }
  return optimizer;
}

}  // namespace rollcall::optim
