#pragma once

#include <torch/torch.h>

#include "trainer/data/loader/loader.h"

namespace rollcall::train {

/// Cross entropy of each image, float32 [images]. `outputs`: [images, classes], float32; `labels`: int64 [images].
[[nodiscard]] at::Tensor losses_of(const at::Tensor& outputs, const at::Tensor& labels, double label_smoothing);

/// With mixed labels, each label's loss by its weight: the same as one loss against the mixed label.
[[nodiscard]] at::Tensor losses_of(const at::Tensor& outputs, const data::Batch& batch, double label_smoothing);

}  // namespace rollcall::train
