#include "trainer/model/resnet.h"

#include <map>
#include <optional>

#include "runtime/base/text.h"
#include "trainer/model/resnet_blocks.h"

namespace rollcall::model {
namespace {

/// He et al. 2015, table 1.
const std::map<std::string, ResNetShape, std::less<>>& shapes() {
  static const std::map<std::string, ResNetShape, std::less<>> table = {
      {"resnet18", {{2, 2, 2, 2}, false}},  {"resnet34", {{3, 4, 6, 3}, false}},  {"resnet50", {{3, 4, 6, 3}, true}},
      {"resnet101", {{3, 4, 23, 3}, true}}, {"resnet152", {{3, 8, 36, 3}, true}},
  };
  return table;
}

Error unknown_model(std::string_view name) {
  const std::optional<std::string> near = nearest(name, model_names());
  const std::string action = near ? "--model=" + *near : "resnet18, resnet34, resnet50, resnet101 or resnet152";
  return fail("--model", std::string(name), "is not a known model", action);
}

}  // namespace

ResNetImpl::ResNetImpl(const ResNetShape& shape, const ResNetOptions& options) : bottleneck_(shape.bottleneck) {
  conv1_ = register_module("conv1", convolution(3, channels_, 7, 2));
  bn1_ = register_module("bn1", BatchNorm(channels_));
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const std::int64_t width = std::int64_t{64} << i;
    stages_[i] = register_module("layer" + std::to_string(i + 1), make_stage(shape.blocks[i], width, i == 0 ? 1 : 2));
  }
  fc_ = register_module("fc", torch::nn::Linear(channels_, options.num_classes));
  initialise(options.zero_init_residual);
}

torch::nn::Sequential ResNetImpl::make_stage(std::int64_t blocks, std::int64_t width, std::int64_t stride) {
  torch::nn::Sequential stage;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t block_stride = i == 0 ? stride : 1;
    if (bottleneck_) {
      stage->push_back(Bottleneck(channels_, width, block_stride));
      channels_ = width * BottleneckImpl::kExpansion;
    } else {
      stage->push_back(BasicBlock(channels_, width, block_stride));
      channels_ = width * BasicBlockImpl::kExpansion;
    }
  }
  return stage;
}

void ResNetImpl::initialise(bool zero_init_residual) {
  for (const std::shared_ptr<torch::nn::Module>& module : modules(/*include_self=*/false)) {
    if (auto* conv = module->as<torch::nn::Conv2dImpl>()) {
      torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
    } else if (auto* block = module->as<BottleneckImpl>(); block != nullptr && zero_init_residual) {
      block->zero_last_batch_norm();
    } else if (auto* pair = module->as<BasicBlockImpl>(); pair != nullptr && zero_init_residual) {
      pair->zero_last_batch_norm();
    }
  }
}

at::Tensor ResNetImpl::forward(at::Tensor images) {
  at::Tensor features = bn1_->relu(conv1_(images));
  features = torch::max_pool2d(features, 3, 2, 1);
  for (torch::nn::Sequential& stage : stages_) {
    features = stage->forward(features);
  }
  return fc_(torch::adaptive_avg_pool2d(features, {1, 1}).flatten(1));
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"};
  return names;
}

Result<ResNet> make_model(std::string_view name, const ResNetOptions& options) {
  const auto shape = shapes().find(name);
  if (shape == shapes().end()) {
    return unknown_model(name);
  }
  if (options.num_classes < 1) {
    return fail("--num-classes", std::to_string(options.num_classes), "is not a number of outputs", "1 or more");
  }
  return ResNet(shape->second, options);
}

}  // namespace rollcall::model
