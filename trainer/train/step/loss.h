#pragma once

#include "trainer/config/train_config.h"
#include "trainer/data/loader/loader.h"
#include "trainer/torch.h"

namespace rollcall::train {

/// Returns the loss of each image in a validation, float32 [images], without smoothing or threshold. `outputs`:
/// [images, classes], float32; `labels`: int64 [images], or
/// float32 [images, classes] of 0 and 1.
[[nodiscard]] at::Tensor losses_of(const at::Tensor& outputs, const at::Tensor& labels, const config::LossConfig& loss);

/// Returns the loss of each image of a training batch, whose labels may be mixed. Cross entropy is each label's by its
/// weight, which equals one loss against the mixed label. Targets of binary cross entropy are mixed, as in timm's
/// mixup_target() and BinaryCrossEntropy. With `class_weights`, float32 [classes], their mean is the loss of torch with
/// `weight=`: cross entropy divides by the sum of the labels' weights, binary cross entropy does not.
[[nodiscard]] at::Tensor losses_of(const at::Tensor& outputs, const data::Batch& batch, const config::LossConfig& loss,
                                   const at::Tensor& class_weights = {});

}  // namespace rollcall::train
