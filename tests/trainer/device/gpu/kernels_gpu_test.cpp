// The project's own kernels on a device: bit identical to the same code on the host, equal to LibTorch's autograd
// within rounding, and in a graph. On GPUs, or on the devices that KERNELS_TEST_DEVICE names.
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>

#include "tests/support/batch_norm_checks.h"
#include "tests/support/kernels_on_host.h"
#include "trainer/device/device.h"
#include "trainer/streams.h"

namespace rollcall::model {
namespace {

using device::kernels::ElementType;

class KernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const named = std::getenv("KERNELS_TEST_DEVICE");
    const Result<device::Device> chosen = device::choose_device({.asked = named == nullptr ? "cuda" : named});
    if (!chosen) {
      GTEST_SKIP() << chosen.error().message();
    }
    device_ = *chosen;
    if (device_.kernels() == nullptr) {
      GTEST_SKIP() << "the plugin has no kernels of its own: it was built without nvcc";
    }
  }
  [[nodiscard]] at::Tensor there(const at::Tensor& tensor) const { return tensor.to(device_.device()); }

  device::Device device_;
};

TEST_F(KernelsTest, BatchNormIsBitIdenticalToTheHost) {
  const auto twins = c10::make_intrusive<Twins>();
  for (const Case& of : batch_norm_cases()) {
    for (StatisticsRanks* const ranks :
         {static_cast<StatisticsRanks*>(nullptr), static_cast<StatisticsRanks*>(twins.get())}) {
      for (const device::KernelParts& parts : {device::KernelParts{}, device::kNoKernelParts}) {
        const auto ours = passes_of(*device_.kernels(), device_.device(), of, ranks, parts);
        const auto hosts = passes_of(testing_support::kernels_on_host(), at::kCPU, of, ranks, parts);
        for (std::size_t i = 0; i < hosts.size(); ++i) {
          EXPECT_TRUE(ours.at(i).equal(hosts[i]))
              << "tensor " << i << " of " << of.channels << " channels, " << of.type;
        }
      }
    }
  }
}

TEST_F(KernelsTest, BatchNormGradientsMatchAutogradInFloat64) {
  for (const Case& of : batch_norm_cases()) {
    if (has_exact(of)) {
      check(by_kernels(device_, of, nullptr, 0, of.images), exact(of), of, 0, of.images);
    }
  }
}

/// A batch of a ResNet-50. It is made of a few images, which take their time to draw.
struct Batch {
  Batch(const Case& of, std::int64_t drawn) {
    const Inputs in({drawn, of.channels, of.size, of.type, of.epilogue});
    const auto all = [&](const at::Tensor& few) {
      return few.repeat({of.images / drawn, 1, 1, 1}).contiguous(kChannelsLast);
    };
    x = all(in.x);
    shortcut = all(in.shortcut);
    gradient = all(in.gradient);
    second = all(in.second);
  }
  at::Tensor x, shortcut, gradient, second;
};

/// The sizes at which ResNet-50 trains on a GPU, batch 256, and small ones on another device, whose kernels a CPU runs.
std::vector<Case> large_cases(const device::Device& device) {
  constexpr auto kType = at::kBFloat16;
  if (device.type() != at::kCUDA) {
    return {{4, 64, 12, kType, Epilogue::ReluMaxPool},
            {4, 16, 9, kType, Epilogue::AddRelu},
            {4, 72, 3, kType, Epilogue::Relu}};
  }
  return {{256, 64, 112, kType, Epilogue::ReluMaxPool},
          {256, 256, 56, kType, Epilogue::AddRelu},
          {256, 2048, 7, kType, Epilogue::AddRelu}};
}

Answer answer_on(const device::Device& device, const Batch& batch, const Case& of, const device::KernelParts& parts) {
  BatchNorm layer = make_layer(of.channels);
  device.place(*layer);
  use_kernels(*layer, device.kernels(), parts);
  const auto there = [&](const at::Tensor& tensor) { return tensor.to(device.device()); };
  const at::Tensor x = there(batch.x).requires_grad_();
  const at::Tensor shortcut = there(batch.shortcut).requires_grad_();
  const at::Tensor y = output_of(layer, of.epilogue, x, shortcut);
  torch::autograd::backward({y, second_use(y)},
                            {there(Inputs::of_output(batch.gradient, y)), there(Inputs::of_output(batch.second, y))});
  const auto shown = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.detach().cpu() : tensor; };
  return {shown(y),
          shown(x.grad()),
          shown(shortcut.grad()),
          shown(layer->weight.grad()),
          shown(layer->bias.grad()),
          shown(layer->running_mean),
          shown(layer->running_var)};
}

/// Compares a few channels with LibTorch's autograd in float64: a batch norm's channels do not depend on each other.
/// The gradient before the epilogue is taken from our output, as rounding moves values over its edge.
void check_channels(const Batch& batch, const Answer& ours, const Case& of, std::int64_t channel) {
  constexpr std::int64_t kFew = 4;
  const auto few = [&](const at::Tensor& all) { return all.narrow(1, channel, kFew).to(at::kDouble).contiguous(); };
  BatchNorm layer = make_layer(of.channels);
  const at::Tensor x = few(batch.x).requires_grad_();
  const auto of_channels = [&](const at::Tensor& all) { return all.detach().narrow(0, channel, kFew).to(at::kDouble); };
  const at::Tensor weight = of_channels(layer->weight).clone().requires_grad_();
  const at::Tensor bias = of_channels(layer->bias).clone().requires_grad_();
  const at::Tensor normalised = std::get<0>(at::native_batch_norm(x, weight, bias, {}, {}, true, 0.1, 1e-5));
  const at::Tensor sum = of.epilogue == Epilogue::AddRelu ? normalised + few(batch.shortcut) : normalised;
  const at::Tensor gradient = few((batch.gradient + batch.second));
  sum.backward(at::threshold_backward(gradient, few(ours.y), 0));
  constexpr double kTolerance = 8e-3;
  EXPECT_LT(error(few(ours.y), at::relu(sum).detach()), kTolerance);
  EXPECT_LT(error(few(ours.x_gradient), x.grad()), 4 * kTolerance);
  EXPECT_LT(error(of_channels(ours.weight_gradient), weight.grad()), kTolerance);
  EXPECT_LT(error(of_channels(ours.bias_gradient), bias.grad()), kTolerance);
}

TEST_F(KernelsTest, BatchesOfAResNet50HaveTheSameBitsInEveryRunAndWithEveryPart) {
  for (const Case& of : large_cases(device_)) {
    SCOPED_TRACE(std::to_string(of.images) + " x " + std::to_string(of.channels) + " x " + std::to_string(of.size));
    const Batch batch(of, std::min<std::int64_t>(of.images, 8));
    const Answer ours = answer_on(device_, batch, of, {});
    EXPECT_TRUE(same_bits(answer_on(device_, batch, of, {}), ours)) << "a second run";
    device::KernelParts no_part = device::kNoKernelParts;
    no_part.stem_pool = true;  // LibTorch's max pooling on GPUs adds in another order
    EXPECT_TRUE(same_bits(answer_on(device_, batch, of, no_part), ours)) << "without the other parts";
    if (of.epilogue != Epilogue::ReluMaxPool) {
      check_channels(batch, ours, of, 0);
      check_channels(batch, ours, of, of.channels - 4);
    }
  }
}

TEST_F(KernelsTest, ImageAndGradientKernelsAreBitIdenticalToTheHost) {
  const at::Tensor levels = torch::arange(3 * 1001).remainder(256).to(at::kByte);
  const at::Tensor gradients = torch::linspace(-1e5, 1e5, 4099);
  const at::Tensor scale = torch::full({1}, 0.3F);
  constexpr std::array kTypes{std::pair{ElementType::Float32, at::kFloat}, std::pair{ElementType::Float16, at::kHalf},
                              std::pair{ElementType::BFloat16, at::kBFloat16}};
  for (const auto& [element, type] : kTypes) {
    const auto images_by = [&, element = element, type = type](const device::Kernels& kernels,
                                                               const at::Tensor& given) {
      const at::Tensor images = at::empty(given.sizes(), given.options().dtype(type));
      kernels.normalise_images({.type = element,
                                .pixels = given.numel() / 3,
                                .levels = given.const_data_ptr<std::uint8_t>(),
                                .images = images.mutable_data_ptr(),
                                .scale = {0.017F, 0.018F, 0.0175F},
                                .bias = {-2.1F, -2.0F, -1.8F}});
      return images.cpu();
    };
    EXPECT_TRUE(
        images_by(*device_.kernels(), there(levels)).equal(images_by(testing_support::kernels_on_host(), levels)));
    const auto cast_by = [&, element = element, type = type](const device::Kernels& kernels, const at::Tensor& given,
                                                             const at::Tensor& factor) {
      const at::Tensor cast = at::empty(given.sizes(), given.options().dtype(type));
      kernels.cast_and_scale({.from_type = ElementType::Float32,
                              .to_type = element,
                              .count = given.numel(),
                              .from = given.const_data_ptr(),
                              .to = cast.mutable_data_ptr(),
                              .scale = factor.const_data_ptr<float>()});
      return cast.cpu();
    };
    EXPECT_TRUE(cast_by(*device_.kernels(), there(gradients), there(scale))
                    .equal(cast_by(testing_support::kernels_on_host(), gradients, scale)));
  }
}

TEST_F(KernelsTest, EveryGraphReplayIsBitIdenticalToEagerExecution) {
  ASSERT_NE(device_.plugin()->capture, nullptr);
  const torch::NoGradGuard no_grad;
  const c10::StreamGuard computing(new_stream(device_.device()));
  const Case of{4, 64, 8, at::kBFloat16, Epilogue::AddRelu};
  const Inputs in(of);
  const at::Tensor x = there(in.x);
  const at::Tensor shortcut = there(in.shortcut);
  BatchNorm layer = make_layer(of.channels);
  device_.place(*layer);
  use_kernels(*layer, device_.kernels());
  const at::Tensor outside = layer->add_relu(x, shortcut).cpu();
  at::Tensor y;
  const std::function<void()> replay = device_.plugin()->capture([&] { y = layer->add_relu(x, shortcut); });
  for (int i = 0; i < 2; ++i) {
    y.zero_();
    replay();
    EXPECT_TRUE(y.cpu().equal(outside));
  }
  x.zero_();
  replay();
  EXPECT_FALSE(y.cpu().equal(outside));
}

}  // namespace
}  // namespace rollcall::model
