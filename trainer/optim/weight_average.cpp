#include "trainer/optim/weight_average.h"

namespace rollcall::optim {
namespace {

void exchange_values(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor kept = one.clone();
  one.copy_(other);
  other.copy_(kept);
}

}  // namespace

WeightAverage::WeightAverage(const Named& parameters, const Named& buffers)
    : parameters_(parameters), buffers_(buffers) {}

void WeightAverage::update(double decay) {
  update_parameters(decay);
  update_buffers(decay);
}

void WeightAverage::exchange() {
  parameters_.exchange();
  buffers_.exchange();
}

WeightAverage::Part::Part(const Named& of_model) {
  for (const auto& entry : of_model) {
    const at::Tensor value = entry.value().detach();
    const at::Tensor average = value.clone();
    named.insert(entry.key(), average);
    if (!value.is_floating_point()) {
      counters.emplace_back(average, value);
    } else if (value.numel() > 0) {
      averages.push_back(average);
      values.push_back(value);
    }
  }
}

void WeightAverage::Part::update(double decay) {
  const torch::NoGradGuard no_grad;
  if (!averages.empty()) {  // a rank may have no rows
    at::_foreach_lerp_(averages, values, 1 - decay);
  }
  for (const auto& [average, value] : counters) {
    average.copy_(average * decay + value * (1 - decay));
  }
}

void WeightAverage::Part::exchange() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages.size(); ++i) {
    exchange_values(averages[i], values[i]);
  }
  for (const auto& [average, value] : counters) {
    exchange_values(average, value);
  }
}

}  // namespace rollcall::optim
