#pragma once

#include <torch/torch.h>
#include <cstdint>

#include "trainer/model/batch_norm.h"

namespace rollcall::model {

/// A k x k convolution without bias, padded so that stride 1 keeps the size.
[[nodiscard]] torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                            std::int64_t stride);

/// Two 3x3 convolutions and a shortcut; `in` channels to `width`. The shortcut is a strided 1x1 convolution where the
/// shape changes.
class BasicBlockImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 1;  ///< output channels / width

  BasicBlockImpl(std::int64_t in, std::int64_t width, std::int64_t stride);
  at::Tensor forward(at::Tensor input);
  void zero_last_batch_norm();

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  BatchNorm bn1_{nullptr}, bn2_{nullptr};
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(BasicBlock);

/// 1x1, 3x3 (with the stride), 1x1 convolutions and a shortcut; `in` channels to 4 * `width`.
class BottleneckImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 4;

  BottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride);
  at::Tensor forward(at::Tensor input);
  void zero_last_batch_norm();

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  BatchNorm bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(Bottleneck);

}  // namespace rollcall::model
