#include "trainer/model/resnet.h"

#include <ATen/record_function.h>
#include <algorithm>
#include <optional>

#include "runtime/base/text.h"

namespace rollcall::model {
namespace {

/// A k x k convolution without bias, padded so that stride 1 keeps the size.
torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                              std::int64_t groups = 1) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).groups(groups).bias(false));
}

struct BlockShape {
  std::int64_t in;     ///< channels
  std::int64_t width;  ///< of the stage; a block has width * kExpansion output channels
  std::int64_t stride;
  std::int64_t inner;   ///< channels of the 3x3 convolution of a bottleneck
  std::int64_t groups;  ///< its groups
};

/// Makes the shortcut of a block that changes the shape; null if the input can be added unchanged.
torch::nn::Sequential make_downsample(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (stride == 1 && in == out) {
    return nullptr;
  }
  return torch::nn::Sequential(convolution(in, out, 1, stride), BatchNorm(out));
}

/// Two 3x3 convolutions and a shortcut; to `width` channels. The shortcut is a strided 1x1 convolution if the
/// shape changes.
class BasicBlockImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 1;  ///< output channels / width

  explicit BasicBlockImpl(const BlockShape& shape);
  at::Tensor forward(const at::Tensor& input);
  void zero_last_batch_norm();

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  BatchNorm bn1_{nullptr}, bn2_{nullptr};
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(BasicBlock);

/// 1x1, 3x3 (with the stride), 1x1 convolutions and a shortcut; to 4 * `width` channels.
class BottleneckImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 4;

  explicit BottleneckImpl(const BlockShape& shape);
  at::Tensor forward(const at::Tensor& input);
  void zero_last_batch_norm();

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  BatchNorm bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(Bottleneck);

BasicBlockImpl::BasicBlockImpl(const BlockShape& shape) {
  const auto& [in, width, stride, inner, groups] = shape;
  conv1_ = register_module("conv1", convolution(in, width, 3, stride));
  bn1_ = register_module("bn1", BatchNorm(width));
  conv2_ = register_module("conv2", convolution(width, width, 3, 1));
  bn2_ = register_module("bn2", BatchNorm(width));
  downsample_ = make_downsample(in, width * kExpansion, stride);
  if (downsample_) {
    register_module("downsample", downsample_);
  }
}

at::Tensor BasicBlockImpl::forward(const at::Tensor& input) {
  const at::Tensor branch = conv2_(bn1_->relu(conv1_(input)));
  return bn2_->add_relu(branch, downsample_ ? downsample_->forward(input) : input);
}

void BasicBlockImpl::zero_last_batch_norm() { torch::nn::init::zeros_(bn2_->weight); }

BottleneckImpl::BottleneckImpl(const BlockShape& shape) {
  const auto& [in, width, stride, inner, groups] = shape;
  conv1_ = register_module("conv1", convolution(in, inner, 1, 1));
  bn1_ = register_module("bn1", BatchNorm(inner));
  conv2_ = register_module("conv2", convolution(inner, inner, 3, stride, groups));
  bn2_ = register_module("bn2", BatchNorm(inner));
  conv3_ = register_module("conv3", convolution(inner, width * kExpansion, 1, 1));
  bn3_ = register_module("bn3", BatchNorm(width * kExpansion));
  downsample_ = make_downsample(in, width * kExpansion, stride);
  if (downsample_) {
    register_module("downsample", downsample_);
  }
}

at::Tensor BottleneckImpl::forward(const at::Tensor& input) {
  const at::Tensor narrow = bn2_->relu(conv2_(bn1_->relu(conv1_(input))));
  const at::Tensor branch = conv3_(narrow);
  return bn3_->add_relu(branch, downsample_ ? downsample_->forward(input) : input);
}

void BottleneckImpl::zero_last_batch_norm() { torch::nn::init::zeros_(bn3_->weight); }

Error unknown_model(std::string_view name) {
  std::vector<std::string> names;
  names.reserve(std::size(kResNets));
  for (const ResNetShape& shape : kResNets) {
    names.emplace_back(shape.name);
  }
  const std::optional<std::string> near = nearest(name, names);
  const std::string action =
      near ? "--model=" + *near : "--model=resnet50, resnet20, resnet18, resnet34, resnet101 or resnet152";
  return fail("--model", std::string(name), "is not a known model", action);
}

}  // namespace

ResNetImpl::ResNetImpl(const ResNetShape& shape, const ResNetOptions& options) : shape_(shape), channels_(shape.width) {
  conv1_ =
      register_module("conv1", shape.small_images ? convolution(3, channels_, 3, 1) : convolution(3, channels_, 7, 2));
  bn1_ = register_module("bn1", BatchNorm(channels_));
  for (std::size_t i = 0; i < shape.blocks.size() && shape.blocks[i] > 0; ++i) {
    const torch::nn::Sequential stage = make_stage(shape.blocks[i], shape.width << i, i == 0 ? 1 : 2);
    stages_.push_back(register_module("layer" + std::to_string(i + 1), stage));
  }
  fc_ = register_module("fc", torch::nn::Linear(channels_, options.num_classes));
  initialise(options.zero_init_residual);
}

torch::nn::Sequential ResNetImpl::make_stage(std::int64_t blocks, std::int64_t width, std::int64_t stride) {
  torch::nn::Sequential stage;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const BlockShape block{.in = channels_,
                           .width = width,
                           .stride = i == 0 ? stride : 1,
                           .inner = shape_.inner_width(width),
                           .groups = shape_.groups};
    if (shape_.bottleneck) {
      stage->push_back(Bottleneck(block));
      channels_ = width * BottleneckImpl::kExpansion;
    } else {
      stage->push_back(BasicBlock(block));
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

at::Tensor ResNetImpl::forward_stem(const at::Tensor& images) {
  RECORD_USER_SCOPE("compute: stem");
  const at::Tensor features = bn1_->relu(conv1_(images));
  return shape_.small_images ? features : torch::max_pool2d(features, 3, 2, 1);
}

at::Tensor ResNetImpl::forward_head(const at::Tensor& features) {
  RECORD_USER_SCOPE("compute: head");
  return fc_(torch::adaptive_avg_pool2d(features, {1, 1}).flatten(1));
}

at::Tensor ResNetImpl::forward(const at::Tensor& images) {
  at::Tensor features = forward_stem(images);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    RECORD_USER_SCOPE("compute: layer" + std::to_string(i + 1));
    features = stages_[i]->forward(features);
  }
  return forward_head(features);
}

Result<ResNet> make_model(std::string_view name, const ResNetOptions& options) {
  const auto* const shape = std::ranges::find(kResNets, name, &ResNetShape::name);
  if (shape == kResNets.end()) {
    return unknown_model(name);
  }
  if (options.num_classes < 1) {
    return fail("--num-classes", std::to_string(options.num_classes), "must be at least 1",
                "setting it to the number of classes");
  }
  return ResNet(*shape, options);
}

}  // namespace rollcall::model
