#pragma once

#include <memory>
#include <vector>

#include "trainer/torch.h"

namespace rollcall::model {

/// What a training trains. Its parameters and buffers have the names of Python's state_dict().
class ImageClassifier : public torch::nn::Module {
 public:
  /// Takes images [N, 3, H, W] float32, contiguous or channels-last, and returns logits [N, classes]. `kept`, bool
  /// [N, drop_rates().size()]: what remains of each image's branches and features; undefined: all of them.
  virtual at::Tensor forward(const at::Tensor& images, const at::Tensor& kept = {}) = 0;

  /// Returns the probability that each column of forward()'s `kept` is false: those of the blocks with stochastic
  /// depth, then those of the features with dropout. A model that draws by itself has none.
  [[nodiscard]] virtual std::vector<double> drop_rates() const { return {}; }
};

using Model = std::shared_ptr<ImageClassifier>;

}  // namespace rollcall::model
