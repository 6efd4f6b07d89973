#include "trainer/optim/weight_average.h"

namespace rollcall::optim {
namespace {

void exchange_values(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor kept = one.clone();
  one.copy_(other);
  other.copy_(kept);
}

}  // namespace

WeightAverage::WeightAverage(const Named& parameters, const Named& buffers) {
  add(parameters, parameters_);
  add(buffers, buffers_);
}

void WeightAverage::add(const Named& values, Named& averages) {
  for (const auto& entry : values) {
    const at::Tensor value = entry.value().detach();
    const at::Tensor average = value.clone();
    averages.insert(entry.key(), average);
    if (!value.is_floating_point()) {
      counters_.emplace_back(average, value);
    } else if (value.numel() > 0) {
      averages_.push_back(average);
      values_.push_back(value);
    }
  }
}

void WeightAverage::update(double decay) {
  const torch::NoGradGuard no_grad;
  if (!averages_.empty()) {  // a rank may have no rows
    at::_foreach_lerp_(averages_, values_, 1 - decay);
  }
  for (const auto& [average, value] : counters_) {
    average.copy_(average * decay + value * (1 - decay));
  }
}

void WeightAverage::exchange() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    exchange_values(averages_[i], values_[i]);
  }
  for (const auto& [average, value] : counters_) {
    exchange_values(average, value);
  }
}

}  // namespace rollcall::optim
