#pragma once

#include <memory>

#include "trainer/torch.h"

namespace rollcall::model {

/// What a training trains. Its parameters and buffers have the names of Python's state_dict().
class ImageClassifier : public torch::nn::Module {
 public:
  /// Takes images [N, 3, H, W] float32, contiguous or channels-last, and returns logits [N, classes].
  virtual at::Tensor forward(const at::Tensor& images) = 0;
};

using Model = std::shared_ptr<ImageClassifier>;

}  // namespace rollcall::model
