#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
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

/// The tensors on the device that a step reads.
struct StepOnDevice {
  std::vector<at::Tensor>& steps;   ///< by group: number of steps of its parameters; made in the first step
  const at::Tensor& learning_rate;  ///< [] float32
  const at::Tensor& non_finite;     ///< [1] float32: 1 if the step is skipped
};

/// The interface of one kind of optimizer.
struct OptimizerKind {
  std::string_view python_name;  ///< name of Python's class, which checkpoints store: "AdamW"

  /// Checks the options of this kind. Errors (Usage): one is outside its range.
  Result<void> (*check)(const OptimizerOptions& options);
  /// Makes an optimizer; see make_optimizer(). The options were checked.
  std::unique_ptr<torch::optim::Optimizer> (*make)(const OptimizerOptions& options, const NamedParameters& parameters);
  bool (*made)(const torch::optim::Optimizer& optimizer);  ///< returns whether `optimizer` is of this kind

  /// Returns a group's options by the names of Python's param_groups.
  nlohmann::ordered_json (*to_json)(const torch::optim::OptimizerOptions& options);
  /// Does the reverse of to_json. Throws nlohmann::json::exception if an option is missing.
  std::unique_ptr<torch::optim::OptimizerOptions> (*from_json)(const nlohmann::json& json);

  /// Saves a parameter's state under the names that load_state reads.
  void (*save_state)(const torch::optim::OptimizerParamState& state, const StateSink& sink);
  /// Loads a parameter's state. Null if nothing is stored for it (it never had a gradient). Throws c10::Error if a part
  /// is missing.
  std::unique_ptr<torch::optim::OptimizerParamState> (*load_state)(const StateSource& source);

  /// Enqueues one step on the device, for DeviceStep, which counts it.
  void (*step_on_device)(torch::optim::Optimizer& optimizer, const StepOnDevice& step);
  /// Adds `steps`, which may be negative, to the step count of `state`.
  void (*count_steps)(torch::optim::OptimizerParamState& state, int steps);
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
/// Returns the optimizer's state for `parameter`, and makes it if there is none.
template <typename State>
State& state_for(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  std::unique_ptr<torch::optim::OptimizerParamState>& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!state) {
    state = std::make_unique<State>();
  }
  return static_cast<State&>(*state);
}

/// Returns whether 0 <= number < 1.
[[nodiscard]] bool is_decay(double number);
/// Returns whether `number` is finite and not negative.
[[nodiscard]] bool is_non_negative(double number);

/// Checks OptimizerOptions::momentum. Errors (Usage): it is outside of its range.
[[nodiscard]] Result<void> check_momentum(const OptimizerOptions& options);

/// Makes a LibTorch `Optimizer` with the parameter groups of make_optimizer(); `make_options` returns the kind's
/// options for a weight decay.
///
/// An optimizer's constructor takes group options that equal a default-constructed Options for unset, and replaces them
/// with its own defaults: AdamW's weight decay of 0.01 would become 0. So the groups' options are set once more.
template <typename Optimizer, typename MakeOptions>
std::unique_ptr<Optimizer> make_with_groups(const NamedParameters& parameters, const OptimizerOptions& wanted,
                                            const MakeOptions& make_options) {
  using GroupOptions = std::decay_t<decltype(make_options(0.0))>;
  std::vector<at::Tensor> decayed;
  std::vector<at::Tensor> plain;
  for (const auto& parameter : parameters) {
    (parameter.value().dim() > 1 ? decayed : plain).push_back(parameter.value());
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  if (!decayed.empty()) {
    groups.emplace_back(std::move(decayed), std::make_unique<GroupOptions>(make_options(wanted.weight_decay)));
  }
  if (!plain.empty()) {
    const double decay = wanted.decay_all ? wanted.weight_decay : 0;
    groups.emplace_back(std::move(plain), std::make_unique<GroupOptions>(make_options(decay)));
  }
  auto optimizer = std::make_unique<Optimizer>(groups, make_options(0));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    optimizer->param_groups()[i].set_options(groups[i].options().clone());
  }
  return optimizer;
}

}  // namespace rollcall::optim
