#include "trainer/model/resnet_blocks.h"

namespace rollcall::model {
namespace {

/// The shortcut where a block changes the shape; null where the input can be added as it is.
torch::nn::Sequential make_downsample(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (stride == 1 && in == out) {
    return nullptr;
  }
  return torch::nn::Sequential(convolution(in, out, 1, stride), torch::nn::BatchNorm2d(out));
}

/// The end of a block. Both operations work in place: the branch's BatchNorm output is needed by no backward pass.
at::Tensor add_shortcut(at::Tensor branch, const at::Tensor& shortcut) { return branch.add_(shortcut).relu_(); }

}  // namespace

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

BasicBlockImpl::BasicBlockImpl(std::int64_t in, std::int64_t width, std::int64_t stride) {
  conv1_ = register_module("conv1", convolution(in, width, 3, stride));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(width));
  conv2_ = register_module("conv2", convolution(width, width, 3, 1));
  bn2_ = register_module("bn2", torch::nn::BatchNorm2d(width));
  downsample_ = make_downsample(in, width * kExpansion, stride);
  if (downsample_) {
    register_module("downsample", downsample_);
  }
}

at::Tensor BasicBlockImpl::forward(at::Tensor input) {
  at::Tensor branch = bn1_(conv1_(input)).relu_();
  branch = bn2_(conv2_(branch));
  return add_shortcut(branch, downsample_ ? downsample_->forward(input) : input);
}

void BasicBlockImpl::zero_last_batch_norm() { torch::nn::init::zeros_(bn2_->weight); }

BottleneckImpl::BottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride) {
  conv1_ = register_module("conv1", convolution(in, width, 1, 1));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(width));
  conv2_ = register_module("conv2", convolution(width, width, 3, stride));
  bn2_ = register_module("bn2", torch::nn::BatchNorm2d(width));
  conv3_ = register_module("conv3", convolution(width, width * kExpansion, 1, 1));
  bn3_ = register_module("bn3", torch::nn::BatchNorm2d(width * kExpansion));
  downsample_ = make_downsample(in, width * kExpansion, stride);
  if (downsample_) {
    register_module("downsample", downsample_);
  }
}

at::Tensor BottleneckImpl::forward(at::Tensor input) {
  at::Tensor branch = bn1_(conv1_(input)).relu_();
  branch = bn2_(conv2_(branch)).relu_();
  branch = bn3_(conv3_(branch));
  return add_shortcut(branch, downsample_ ? downsample_->forward(input) : input);
}

void BottleneckImpl::zero_last_batch_norm() { torch::nn::init::zeros_(bn3_->weight); }

}  // namespace rollcall::model
