#include "trainer/train/losses.h"

namespace rollcall::train {

at::Tensor losses_of(const at::Tensor& outputs, const at::Tensor& labels, double label_smoothing) {
  return torch::cross_entropy_loss(outputs, labels, {}, at::Reduction::None, -100, label_smoothing);
}

at::Tensor losses_of(const at::Tensor& outputs, const data::Batch& batch, double label_smoothing) {
  const at::Tensor first = losses_of(outputs, batch.labels, label_smoothing);
  if (batch.label_weight == 1) {
    return first;
  }
  const at::Tensor second = losses_of(outputs, batch.second_labels, label_smoothing);
  return first * batch.label_weight + second * (1 - batch.label_weight);
}

}  // namespace rollcall::train
