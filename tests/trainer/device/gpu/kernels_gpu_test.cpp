// The project's own kernels on a device: bit identical to the same code on the host, equal to LibTorch's autograd
// within rounding, and in a graph. On GPUs, or on the devices that KERNELS_TEST_DEVICE names.
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

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
      const auto ours = passes_of(*device_.kernels(), device_.device(), of, ranks);
      const auto hosts = passes_of(testing_support::kernels_on_host(), at::kCPU, of, ranks);
      for (std::size_t i = 0; i < hosts.size(); ++i) {
        EXPECT_TRUE(ours.at(i).equal(hosts[i])) << "tensor " << i << " of " << of.channels << " channels, " << of.type;
      }
    }
  }
}

TEST_F(KernelsTest, BatchNormGradientsMatchAutogradInFloat64) {
  for (const Case& of : batch_norm_cases()) {
    check(by_kernels(device_, of, nullptr, 0, of.images), exact(of), of, 0, of.images);
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
