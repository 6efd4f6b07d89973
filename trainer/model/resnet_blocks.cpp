#include "trainer/model/resnet_blocks.h"

namespace rollcall::model {
namespace {

/// The shortcut where a block changes the shape; null where the input can be added as it is.
torch::nn::Sequential make_downsample(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (stride == 1 && in == out) {
    return nullptr;
  }
  return torch::nn::Sequential(convolution(in, out, 1, stride), BatchNorm(out));
}

}  // namespace

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

BasicBlockImpl::BasicBlockImpl(std::int64_t in, std::int64_t width, std::int64_t stride) {
  conv1_ = register_module("conv1", convolution(in, width, 3, stride));
  bn1_ = register_module("bn1", BatchNorm(width));
  conv2_ = register_module("conv2", convolution(width, width, 3, 1));
  bn2_ = register_module("bn2", BatchNorm(width));
  downsample_ = make_downsample(in, width * kExpansion, stride);
  if (downsample_) {
    register_module("downsample", downsample_);
  }
}

at::Tensor BasicBlockImpl::forward(at::Tensor input) {
  const at::Tensor branch = conv2_(bn1_->relu(conv1_(input)));
  return bn2_->add_relu(branch, downsample_ ? downsample_->forward(input) : input);
}

void BasicBlockImpl::zero_last_batch_norm() { torch::nn::init::zeros_(bn2_->weight); }

BottleneckImpl::BottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride) {
  conv1_ = register_module("conv1", convolution(in, width, 1, 1));
  bn1_ = register_module("bn1", BatchNorm(width));
  conv2_ = register_module("conv2", convolution(width, width, 3, stride));
  bn2_ = register_module("bn2", BatchNorm(width));
  conv3_ = register_module("conv3", convolution(width, width * kExpansion, 1, 1));
  bn3_ = register_module("bn3", BatchNorm(width * kExpansion));
  downsample_ = make_downsample(in, width * kExpansion, stride);
  if (downsample_) {
    register_module("downsample", downsample_);
  }
}

at::Tensor BottleneckImpl::forward(at::Tensor input) {
  const at::Tensor narrow = bn2_->relu(conv2_(bn1_->relu(conv1_(input))));
  const at::Tensor branch = conv3_(narrow);
  return bn3_->add_relu(branch, downsample_ ? downsample_->forward(input) : input);
}

void BottleneckImpl::zero_last_batch_norm() { torch::nn::init::zeros_(bn3_->weight); }

}  // namespace rollcall::model
