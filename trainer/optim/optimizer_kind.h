#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/optim/optimizer.h"
#include "trainer/torch.h"

namespace rollcall::optim {

using NamedParameters = torch::OrderedDict<std::string, at::Tensor>;

/// Where an optimizer's state for one parameter goes, by names of its own: tensors of the parameter's shape, numbers.
struct StateSink {
  std::function<void(const std::string& name, const at::Tensor& tensor)> tensor;
  std::function<void(const std::string& name, std::int64_t number)> number;
};

/// Where it comes from: undefined, or nothing, where none is stored under that name.
struct StateSource {
  std::function<at::Tensor(const std::string& name)> tensor;
  std::function<std::optional<std::int64_t>(const std::string& name)> number;
};

/// What a step on a device reads there.
struct StepOnDevice {
  at::Tensor& steps;                ///< that the group's parameters have done; its kind makes it at the first one
  const at::Tensor& learning_rate;  ///< [] float32
  const at::Tensor& non_finite;     ///< [1] float32: 1: the step is left out
};

/// All that the program knows of one kind of optimizer.
struct OptimizerKind {
  std::string_view python_name;  ///< of Python's class, as checkpoints have it: "AdamW"

  /// Errors (Usage): an option of this kind outside its range.
  Result<void> (*check)(const OptimizerOptions& options);
  /// See make_optimizer(); the options were checked.
  std::unique_ptr<torch::optim::Optimizer> (*make)(const OptimizerOptions& options, const NamedParameters& parameters);
  bool (*made)(const torch::optim::Optimizer& optimizer);  ///< whether `optimizer` is of this kind

  /// A group's options, named as Python's param_groups name them.
  nlohmann::ordered_json (*to_json)(const torch::optim::OptimizerOptions& options);
  /// Throws nlohmann::json::exception where something is missing.
  std::unique_ptr<torch::optim::OptimizerOptions> (*from_json)(const nlohmann::json& json);

  /// A parameter's state, saved and loaded under the same names.
  void (*save_state)(const torch::optim::OptimizerParamState& state, const StateSink& sink);
  /// Null where nothing is stored for this parameter (it never had a gradient). Throws c10::Error where a part is
  /// missing.
  std::unique_ptr<torch::optim::OptimizerParamState> (*load_state)(const StateSource& source);

  /// What the device does in one step of `group`, for DeviceStep, which counts it.
  void (*step_on_device)(torch::optim::Optimizer& optimizer, torch::optim::OptimizerParamGroup& group,
                         const StepOnDevice& step);
  /// `state` counts so many steps more; fewer where that is negative.
  void (*count_steps)(torch::optim::OptimizerParamState& state, int steps);
};

/// A kind under the name that setting `optimizer` has for it.
struct NamedKind {
  std::string_view name;
  const OptimizerKind* kind;
};

/// Every kind there is. Another one is a file that defines it, and its row here (and its settings in the trainer's
/// table).
extern const OptimizerKind kAdamW, kSgd;
inline constexpr std::array kOptimizers{NamedKind{"adamw", &kAdamW}, NamedKind{"sgd", &kSgd}};

/// The kind that made `optimizer`; null where none did.
[[nodiscard]] const OptimizerKind* kind_of(const torch::optim::Optimizer& optimizer);

// For the kinds.

/// A number as messages have it.
[[nodiscard]] std::string number_text(double number);
/// A learning rate as people write it, which set_learning_rate() made a float32: 0.004, and not 0.004000000189989805.
/// One that is no float32 as it is.
[[nodiscard]] double as_written(double learning_rate);
/// The parameters of a group that have gradients, of at least one number.
[[nodiscard]] std::vector<at::Tensor> with_gradients(const torch::optim::OptimizerParamGroup& group);
/// The optimizer's state for `parameter`, made where there is none.
template <typename State>
State& state_for(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  std::unique_ptr<torch::optim::OptimizerParamState>& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!state) {
    state = std::make_unique<State>();
  }
  return static_cast<State&>(*state);
}

/// 0 <= number < 1.
[[nodiscard]] bool is_decay(double number);
/// Finite and not below 0.
[[nodiscard]] bool is_non_negative(double number);

/// An `Optimizer` of LibTorch's over two parameter groups, see make_optimizer(); `make_options` gives the kind's own
/// options for a weight decay.
///
/// An optimizer's constructor takes what a group shares with a default-made Options for not set, and replaces it with
/// its own defaults: AdamW's 0.01 of weight decay would become 0. So the groups' options are set once more.
template <typename Optimizer, typename MakeOptions>
std::unique_ptr<torch::optim::Optimizer> make_with_groups(const NamedParameters& parameters, double weight_decay,
                                                          const MakeOptions& make_options) {
  using GroupOptions = std::decay_t<decltype(make_options(0.0))>;
  std::vector<at::Tensor> decayed;
  std::vector<at::Tensor> plain;
  for (const auto& parameter : parameters) {
    (parameter.value().dim() > 1 ? decayed : plain).push_back(parameter.value());
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  if (!decayed.empty()) {
    groups.emplace_back(std::move(decayed), std::make_unique<GroupOptions>(make_options(weight_decay)));
  }
  if (!plain.empty()) {
    groups.emplace_back(std::move(plain), std::make_unique<GroupOptions>(make_options(0)));
  }
  auto optimizer = std::make_unique<Optimizer>(groups, make_options(0));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    optimizer->param_groups()[i].set_options(groups[i].options().clone());
  }
  return optimizer;
}

}  // namespace rollcall::optim
