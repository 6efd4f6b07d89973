#include <torch/optim/rmsprop.h>

#include <array>

#include "trainer/optim/optimizer_kind.h"

namespace rollcall::optim {
namespace {

using torch::optim::AdamWParamState;
using torch::optim::OptimizerParamState;
using torch::optim::RMSpropParamState;
using torch::optim::SGDParamState;

/// Up to here a step's bias correction, of double, has the exact count.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;

template <typename State>
std::unique_ptr<OptimizerParamState> make() {
  return std::make_unique<State>();
}

template <typename State>
std::int64_t& steps(OptimizerParamState& state) {
  return dynamic_cast<State&>(state).step();
}

template <typename State, at::Tensor& (State::*Member)() noexcept>
at::Tensor& part(OptimizerParamState& state) {
  return (dynamic_cast<State&>(state).*Member)();
}

constexpr std::array kOfAdam{
    StateTensor{"exp_avg", part<AdamWParamState, &AdamWParamState::exp_avg>},
    StateTensor{"exp_avg_sq", part<AdamWParamState, &AdamWParamState::exp_avg_sq>},
    StateTensor{"max_exp_avg_sq", part<AdamWParamState, &AdamWParamState::max_exp_avg_sq>, true}};
constexpr std::array kOfMomentum{
    StateTensor{"momentum_buffer", part<SGDParamState, &SGDParamState::momentum_buffer>, true}};
constexpr std::array kOfRmsProp{
    StateTensor{"square_avg", part<RMSpropParamState, &RMSpropParamState::square_avg>},
    StateTensor{"momentum_buffer", part<RMSpropParamState, &RMSpropParamState::momentum_buffer>, true}};

}  // namespace

const ParameterState kAdamState{make<AdamWParamState>, steps<AdamWParamState>, kOfAdam};
const ParameterState kMomentumState{make<SGDParamState>, nullptr, kOfMomentum};
const ParameterState kRmsPropState{make<RMSpropParamState>, steps<RMSpropParamState>, kOfRmsProp};

void ParameterState::save(OptimizerParamState& state, const StateSink& sink) const {
  if (steps != nullptr) {
    sink.number("step", steps(state));
  }
  for (const auto& [name, in, is_optional] : tensors) {
    if (in(state).defined()) {
      sink.tensor(name, in(state));
    }
  }
}

std::unique_ptr<OptimizerParamState> ParameterState::load(const StateSource& source) const {
  const std::optional<std::int64_t> counted = steps != nullptr ? source.number("step") : 0;
  if (!counted) {
    return nullptr;
  }
  TORCH_CHECK_VALUE(*counted >= 0 && *counted <= kMostSteps, "it counts ", *counted, " steps of a parameter");
  std::unique_ptr<OptimizerParamState> state = make();
  bool is_stored = steps != nullptr;
  for (const auto& [name, in, is_optional] : tensors) {
    at::Tensor& tensor = in(*state) = source.tensor(name);
    TORCH_CHECK(tensor.defined() || is_optional, name, " of a parameter is missing there");
    is_stored = is_stored || tensor.defined();
  }
  count(*state, *counted);
  return is_stored ? std::move(state) : nullptr;
}

void ParameterState::count(OptimizerParamState& state, std::int64_t more) const {
  if (steps != nullptr) {
    steps(state) += more;
  }
}

at::Tensor& ParameterState::tensor(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                                   std::size_t number) const {
  std::unique_ptr<OptimizerParamState>& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  state = state ? std::move(state) : make();
  at::Tensor& tensor = tensors[number].in(*state);
  return tensor = tensor.defined() ? tensor : torch::zeros_like(parameter);
}

GroupTensors ParameterState::group(torch::optim::Optimizer& optimizer, const torch::optim::OptimizerParamGroup& group,
                                   std::size_t count) const {
  GroupTensors all{.parameters = with_gradients(group), .gradients = {}, .states = {}};
  all.states.resize(tensors.size());
  for (const at::Tensor& parameter : all.parameters) {
    all.gradients.push_back(parameter.grad());
    for (std::size_t i = 0; i < count; ++i) {
      all.states[i].push_back(tensor(optimizer, parameter, i));
    }
  }
  return all;
}

}  // namespace rollcall::optim
