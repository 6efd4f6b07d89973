#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/model/batch_norm.h"
#include "trainer/model/image_classifier.h"
#include "trainer/model/resnet_shapes.h"
#include "trainer/torch.h"

namespace rollcall::model {

class ResidualBlock;

/// ResNet (He et al. 2015), ResNeXt and Wide ResNet as torchvision builds it: the stride of a bottleneck sits in its
/// 3x3 convolution, shortcuts that change the shape are 1x1 convolutions ("option B"), and every parameter and buffer
/// has torchvision's name. The stages `layer1`, `layer2` ... are torch::nn::Sequential of blocks.
///
/// BatchNorm starts with weight 1 and bias 0; see Initialisation for the others, which are drawn from LibTorch's
/// default generator. Not thread-safe, as any module.
class ResNetImpl : public ImageClassifier {
 public:
  ResNetImpl(const ResNetShape& shape, const ResNetOptions& options);

  at::Tensor forward(const at::Tensor& images, const at::Tensor& kept = {}) override;
  [[nodiscard]] std::vector<double> drop_rates() const override;

 private:
  at::Tensor forward_stem(const at::Tensor& images);
  at::Tensor forward_head(const at::Tensor& features, const at::Tensor& kept);
  void set_branch_factors(const at::Tensor& kept);
  torch::nn::AnyModule make_stem() const;
  torch::nn::Sequential make_stage(std::int64_t blocks, std::int64_t width, std::int64_t stride);
  void initialise();

  ResNetShape shape_;
  ResNetOptions options_;
  std::int64_t channels_;  ///< input channels of the next block
  torch::nn::AnyModule conv1_;
  BatchNorm bn1_{nullptr};
  std::vector<torch::nn::Sequential> stages_;
  std::vector<std::shared_ptr<ResidualBlock>> blocks_;  ///< of all stages
  torch::nn::Linear fc_{nullptr};
};
TORCH_MODULE(ResNet);

/// Builds the model of this name (kResNets) on the CPU, in training mode, contiguous. Errors (Usage): the name is
/// unknown (the nearest known one is suggested), num_classes is below 1, or the model has another stem than a deep one
/// replaces.
[[nodiscard]] Result<ResNet> make_model(std::string_view name, const ResNetOptions& options = {});

}  // namespace rollcall::model
