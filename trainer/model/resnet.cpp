#include "trainer/model/resnet.h"

#include <ATen/record_function.h>
#include <torch/nn/modules/pooling.h>
#include <algorithm>
#include <optional>

#include "runtime/base/text.h"

namespace rollcall::model {
namespace {

/// A convolution that may blur its input first.
class ConvolutionImpl : public torch::nn::Conv2dImpl {
 public:
  ConvolutionImpl(const torch::nn::Conv2dOptions& made_with, bool blurs) : torch::nn::Conv2dImpl(made_with) {
    if (blurs) {
      const at::Tensor line = torch::tensor({0.25F, 0.5F, 0.25F});
      blur_filter_ = register_buffer("blur_filter", line.outer(line).repeat({options.in_channels(), 1, 1, 1}));
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    if (!blur_filter_.defined()) {
      return torch::nn::Conv2dImpl::forward(input);
    }
    const at::Tensor filter = blur_filter_.to(input.scalar_type());
    return torch::nn::Conv2dImpl::forward(torch::conv2d(input, filter, {}, 1, 1, 1, input.size(1)));
  }

 private:
  at::Tensor blur_filter_;
};
TORCH_MODULE(Convolution);

/// A k x k convolution without bias, padded so that stride 1 keeps the size. `blur`: if it has a stride and at least 16
/// input channels.
Convolution convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride, bool blur = false,
                        std::int64_t groups = 1) {
  return Convolution(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).groups(groups).bias(false),
      blur && stride > 1 && in >= 16);
}

struct BlockShape {
  std::int64_t in;     ///< channels
  std::int64_t width;  ///< of the stage; a block has width * kExpansion output channels
  std::int64_t stride;
  std::int64_t inner;   ///< channels of the 3x3 convolution of a bottleneck
  std::int64_t groups;  ///< its groups
  bool pools;           ///< average pooling in the shortcut
  bool blur;            ///< convolutions with a stride blur their input
};

/// Makes the shortcut of a block that changes the shape, to `out` channels; null if the input can be added unchanged.
torch::nn::Sequential make_downsample(const BlockShape& shape, std::int64_t out) {
  if (shape.stride == 1 && shape.in == out) {
    return nullptr;
  }
  if (!shape.pools) {
    return torch::nn::Sequential(convolution(shape.in, out, 1, shape.stride, shape.blur), BatchNorm(out));
  }
  torch::nn::Sequential pooled;
  if (shape.stride == 1) {
    pooled->push_back(torch::nn::Identity());
  } else {
    pooled->push_back(torch::nn::AvgPool2d(
        torch::nn::AvgPool2dOptions(2).stride(shape.stride).ceil_mode(true).count_include_pad(false)));
  }
  pooled->push_back(convolution(shape.in, out, 1, 1));
  pooled->push_back(BatchNorm(out));
  return pooled;
}

/// Three 3x3 convolutions to `out` channels, the first with stride 2. A Sequential would be divided into blocks of
/// FSDP.
class DeepStemImpl : public torch::nn::Module {
 public:
  explicit DeepStemImpl(std::int64_t out)
      : conv1_(register_module("0", convolution(3, out / 2, 3, 2))),
        bn1_(register_module("1", BatchNorm(out / 2))),
        conv2_(register_module("3", convolution(out / 2, out / 2, 3, 1))),
        bn2_(register_module("4", BatchNorm(out / 2))),
        conv3_(register_module("6", convolution(out / 2, out, 3, 1))) {}

  at::Tensor forward(const at::Tensor& images) { return conv3_(bn2_->relu(conv2_(bn1_->relu(conv1_(images))))); }

 private:
  Convolution conv1_;
  BatchNorm bn1_;
  Convolution conv2_;
  BatchNorm bn2_;
  Convolution conv3_;
};
TORCH_MODULE(DeepStem);

}  // namespace

/// A block: a branch of convolutions, and a shortcut that is added to it. The shortcut is a 1x1 convolution if the
/// shape changes.
class ResidualBlock : public torch::nn::Module {
 public:
  /// Sets the factor of each image's branch in the next forward passes, [N]; undefined: the branch is added as it is.
  void set_branch_factors(at::Tensor factors) { factors_ = std::move(factors); }
  virtual void zero_last_batch_norm() = 0;

 protected:
  void add_downsample(const BlockShape& shape, std::int64_t out) {
    downsample_ = make_downsample(shape, out);
    if (downsample_) {
      register_module("downsample", downsample_);
    }
  }

  /// Normalises the branch and adds the shortcut of the block's input.
  at::Tensor add(BatchNorm& last, const at::Tensor& branch, const at::Tensor& input) {
    const at::Tensor again = second_use(input);
    const at::Tensor shortcut = downsample_ ? downsample_->forward(again) : again;
    if (!factors_.defined()) {
      return last->add_relu(branch, shortcut);
    }
    const at::Tensor normalised = last->forward(branch);
    return (normalised * factors_.to(normalised.scalar_type()).view({-1, 1, 1, 1})).add_(shortcut).relu_();
  }

 private:
  torch::nn::Sequential downsample_{nullptr};
  at::Tensor factors_;
};

namespace {

/// Two 3x3 convolutions to `width` channels.
class BasicBlockImpl : public ResidualBlock {
 public:
  static constexpr std::int64_t kExpansion = 1;  ///< output channels / width

  explicit BasicBlockImpl(const BlockShape& shape) {
    const auto& [in, width, stride, inner, groups, pools, blur] = shape;
    conv1_ = register_module("conv1", convolution(in, width, 3, stride, blur));
    bn1_ = register_module("bn1", BatchNorm(width));
    conv2_ = register_module("conv2", convolution(width, width, 3, 1));
    bn2_ = register_module("bn2", BatchNorm(width));
    add_downsample(shape, width * kExpansion);
  }

  at::Tensor forward(const at::Tensor& input) { return add(bn2_, conv2_(bn1_->relu(conv1_(input))), input); }
  void zero_last_batch_norm() override { torch::nn::init::zeros_(bn2_->weight); }

 private:
  Convolution conv1_{nullptr}, conv2_{nullptr};
  BatchNorm bn1_{nullptr}, bn2_{nullptr};
};
TORCH_MODULE(BasicBlock);

/// 1x1, 3x3 (with the stride), 1x1 convolutions to 4 * `width` channels.
class BottleneckImpl : public ResidualBlock {
 public:
  static constexpr std::int64_t kExpansion = 4;

  explicit BottleneckImpl(const BlockShape& shape) {
    const auto& [in, width, stride, inner, groups, pools, blur] = shape;
    conv1_ = register_module("conv1", convolution(in, inner, 1, 1));
    bn1_ = register_module("bn1", BatchNorm(inner));
    conv2_ = register_module("conv2", convolution(inner, inner, 3, stride, blur, groups));
    bn2_ = register_module("bn2", BatchNorm(inner));
    conv3_ = register_module("conv3", convolution(inner, width * kExpansion, 1, 1));
    bn3_ = register_module("bn3", BatchNorm(width * kExpansion));
    add_downsample(shape, width * kExpansion);
  }

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor narrow = bn2_->relu(conv2_(bn1_->relu(conv1_(input))));
    return add(bn3_, conv3_(narrow), input);
  }
  void zero_last_batch_norm() override { torch::nn::init::zeros_(bn3_->weight); }

 private:
  Convolution conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  BatchNorm bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
};
TORCH_MODULE(Bottleneck);

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

ResNetImpl::ResNetImpl(const ResNetShape& shape, const ResNetOptions& options)
    : shape_(shape), options_(options), channels_(shape.width), conv1_(make_stem()) {
  register_module("conv1", conv1_.ptr());
  bn1_ = register_module("bn1", BatchNorm(channels_));
  for (std::size_t i = 0; i < shape.blocks.size() && shape.blocks[i] > 0; ++i) {
    const torch::nn::Sequential stage = make_stage(shape.blocks[i], shape.width << i, i == 0 ? 1 : 2);
    stages_.push_back(register_module("layer" + std::to_string(i + 1), stage));
  }
  fc_ = register_module("fc", torch::nn::Linear(channels_, options.num_classes));
  initialise();
}

torch::nn::AnyModule ResNetImpl::make_stem() const {
  if (options_.deep_stem) {
    return torch::nn::AnyModule(DeepStem(channels_));
  }
  return torch::nn::AnyModule(shape_.small_images ? convolution(3, channels_, 3, 1) : convolution(3, channels_, 7, 2));
}

torch::nn::Sequential ResNetImpl::make_stage(std::int64_t blocks, std::int64_t width, std::int64_t stride) {
  torch::nn::Sequential stage;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const BlockShape block{.in = channels_,
                           .width = width,
                           .stride = i == 0 ? stride : 1,
                           .inner = shape_.inner_width(width),
                           .groups = shape_.groups,
                           .pools = options_.deep_stem,
                           .blur = options_.blur_pool};
    const auto add = [&](auto made) {
      blocks_.push_back(made.ptr());
      stage->push_back(made);
      channels_ = width * made->kExpansion;
    };
    shape_.bottleneck ? add(Bottleneck(block)) : add(BasicBlock(block));
  }
  return stage;
}

void ResNetImpl::initialise() {
  const bool by_inputs = options_.initialisation == Initialisation::FanIn;
  for (const std::shared_ptr<torch::nn::Module>& module : modules(/*include_self=*/false)) {
    if (auto* conv = module->as<torch::nn::Conv2dImpl>()) {
      const auto fan = by_inputs ? torch::nn::init::FanModeType(torch::kFanIn) : torch::kFanOut;
      torch::nn::init::kaiming_normal_(conv->weight, 0, fan, torch::kReLU);
    } else if (auto* block = dynamic_cast<ResidualBlock*>(module.get());
               block != nullptr && options_.zero_init_residual) {
      block->zero_last_batch_norm();
    }
  }
  if (options_.initialisation == Initialisation::Goyal) {
    torch::nn::init::normal_(fc_->weight, 0, 0.01);
    torch::nn::init::zeros_(fc_->bias);
  }
}

std::vector<double> ResNetImpl::drop_rates() const {
  std::vector<double> rates;
  for (std::size_t i = 0; options_.stochastic_depth > 0 && i < blocks_.size(); ++i) {
    rates.push_back(options_.stochastic_depth * static_cast<double>(i) / static_cast<double>(blocks_.size() - 1));
  }
  rates.insert(rates.end(), options_.dropout > 0 ? static_cast<std::size_t>(channels_) : 0, options_.dropout);
  return rates;
}

/// Divides by the probability to be kept, so that the mean stays.
void ResNetImpl::set_branch_factors(const at::Tensor& kept) {
  const std::vector<double> rates = drop_rates();
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const bool drops = kept.defined() && options_.stochastic_depth > 0 && rates[i] > 0;
    blocks_[i]->set_branch_factors(
        drops ? kept.select(1, static_cast<std::int64_t>(i)).to(at::kFloat).div_(1 - rates[i]) : at::Tensor());
  }
}

at::Tensor ResNetImpl::forward_stem(const at::Tensor& images) {
  RECORD_USER_SCOPE("compute: stem");
  const at::Tensor features = conv1_.forward(images);
  return shape_.small_images ? bn1_->relu(features) : bn1_->relu_max_pool(features);
}

at::Tensor ResNetImpl::forward_head(const at::Tensor& features, const at::Tensor& kept) {
  RECORD_USER_SCOPE("compute: head");
  at::Tensor pooled = torch::adaptive_avg_pool2d(features, {1, 1}).flatten(1);
  if (kept.defined() && options_.dropout > 0) {
    const at::Tensor of_features = kept.narrow(1, kept.size(1) - channels_, channels_);
    pooled = pooled * of_features.to(pooled.scalar_type()).div_(1 - options_.dropout);
  }
  return fc_(pooled);
}

at::Tensor ResNetImpl::forward(const at::Tensor& images, const at::Tensor& kept) {
  set_branch_factors(kept);
  at::Tensor features = forward_stem(images);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    RECORD_USER_SCOPE("compute: layer" + std::to_string(i + 1));
    features = stages_[i]->forward(features);
  }
  return forward_head(features, kept);
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
  if (options.deep_stem && shape->small_images) {
    return fail("--resnet-stem", "deep", std::string(name) + " has a stem for small images", "leaving it out");
  }
  return ResNet(*shape, options);
}

}  // namespace rollcall::model
