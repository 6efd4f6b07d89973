#include "trainer/train/step/loss.h"

#include <ATen/record_function.h>

namespace rollcall::train {
namespace {

using Weights = std::optional<at::Tensor>;

at::Tensor cross_entropy(const at::Tensor& outputs, const at::Tensor& labels, const Weights& weights,
                         double label_smoothing) {
  return torch::cross_entropy_loss(outputs, labels, weights, at::Reduction::None, -100, label_smoothing);
}

/// Returns what `of` gives for the batch's labels: for mixed ones, that of both by their weights.
template <typename Of>
at::Tensor mixed(const data::Batch& batch, const Of& of) {
  at::Tensor first = of(batch.labels);
  if (batch.label_weight == 1 && !batch.label_weights.defined()) {
    return first;
  }
  const at::Tensor second = of(batch.second_labels);
  if (batch.label_weights.defined()) {
    return first * batch.label_weights.select(0, 0) + second * batch.label_weights.select(0, 1);
  }
  return first * batch.label_weight + second * (1 - batch.label_weight);
}

/// Returns float32 [images, classes]: each label's class has 1, of which smoothing spreads a part over all classes.
/// Labels that are such rows already stay as they are.
at::Tensor targets_of(const at::Tensor& outputs, const at::Tensor& labels, double label_smoothing) {
  if (labels.dim() == 2) {
    return labels;
  }
  const double off = label_smoothing / static_cast<double>(outputs.size(1));
  return torch::full_like(outputs.detach(), off).scatter_(1, labels.unsqueeze(1), 1 - label_smoothing + off);
}

at::Tensor binary_losses(const at::Tensor& outputs, const at::Tensor& targets, const Weights& weights) {
  return torch::binary_cross_entropy_with_logits(outputs, targets, weights, {}, at::Reduction::None).mean(1);
}

}  // namespace

at::Tensor losses_of(const at::Tensor& outputs, const at::Tensor& labels, const config::LossConfig& loss) {
  return loss.binary ? binary_losses(outputs, targets_of(outputs, labels, 0), {})
                     : cross_entropy(outputs, labels, {}, 0);
}

at::Tensor losses_of(const at::Tensor& outputs, const data::Batch& batch, const config::LossConfig& loss,
                     const at::Tensor& class_weights) {
  RECORD_USER_SCOPE("compute: loss");
  const Weights weights = class_weights.defined() ? Weights(class_weights) : std::nullopt;
  if (!loss.binary) {
    at::Tensor losses = mixed(
        batch, [&](const at::Tensor& labels) { return cross_entropy(outputs, labels, weights, loss.label_smoothing); });
    if (!weights) {
      return losses;
    }
    const at::Tensor of_images =
        mixed(batch, [&](const at::Tensor& labels) { return class_weights.index_select(0, labels); });
    return losses / of_images.mean();
  }
  at::Tensor targets =
      mixed(batch, [&](const at::Tensor& labels) { return targets_of(outputs, labels, loss.label_smoothing); });
  if (loss.target_threshold > 0) {
    targets = targets.gt(loss.target_threshold).to(at::kFloat);
  }
  return binary_losses(outputs, targets, weights);
}

}  // namespace rollcall::train
