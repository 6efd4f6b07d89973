#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/host_kernels.h"
#include "trainer/data/transforms/transforms.h"
#include "trainer/device/cuda/kernels/elementwise_bodies.h"

namespace rollcall::device::kernels {
namespace {

template <typename T>
void normalise_on_host(const at::Tensor& levels, const data::ChannelAffine& affine, const at::Tensor& images) {
  using Body = ImageNormalisation<T>;
  const int blocks = blocks_for(levels.numel(), Body::K);
  run_threads(Body{{levels.numel(), blocks},
                   values<std::uint8_t>(levels),
                   mutable_data<T>(images),
                   {affine.scale[0], affine.scale[1], affine.scale[2]},
                   {affine.bias[0], affine.bias[1], affine.bias[2]}},
              blocks);
}

/// The trainer's result for the same levels on a CPU: a resize to the same size.
at::Tensor by_the_trainer(const at::Tensor& levels, const data::ChannelAffine& affine, data::PixelType type) {
  const int height = static_cast<int>(levels.size(0));
  const int width = static_cast<int>(levels.size(1));
  // Its pixels have four bytes, and some are read behind the last one.
  at::Tensor pixels = at::zeros({height + 1, width, data::kPixelBytes}, at::kByte);
  pixels.narrow(0, 0, height).narrow(2, 0, 3).copy_(levels);
  const at::Tensor images =
      at::empty({height, width, 3}, type == data::PixelType::Float32 ? at::kFloat : at::kBFloat16);
  const data::Box all{0, 0, width, height};
  data::resize({values<std::uint8_t>(pixels), std::ptrdiff_t{width} * data::kPixelBytes, all},
               {.source = all, .width = width, .height = height, .wanted = all}, affine,
               {images.mutable_data_ptr(), type, width, height});
  return images;
}

TEST(KernelNormaliseImages, IsBitIdenticalToTheCpuPathOfTheTrainer) {
  // Every level in every channel; widths whose elements no vector divides.
  at::manual_seed(21);
  const data::ChannelAffine affine = data::Normalisation{}.affine();
  for (const auto& [height, width] : {std::pair{1, 256}, {3, 17}, {224, 224}, {1, 16}}) {
    SCOPED_TRACE(width);
    const at::Tensor levels = width == 256 ? at::arange(256, at::kByte).view({1, 256, 1}).repeat({1, 1, 3})
                                           : at::randint(256, {height, width, 3}).to(at::kByte);
    const at::Tensor floats = at::empty({height, width, 3}, at::kFloat);
    normalise_on_host<float>(levels, affine, floats);
    EXPECT_TRUE(at::equal(floats, by_the_trainer(levels, affine, data::PixelType::Float32)));
    const at::Tensor halves = at::empty({height, width, 3}, at::kBFloat16);
    normalise_on_host<at::BFloat16>(levels, affine, halves);
    EXPECT_TRUE(at::equal(halves, by_the_trainer(levels, affine, data::PixelType::BFloat16)));
    const at::Tensor binary16 = at::empty({height, width, 3}, at::kHalf);
    normalise_on_host<at::Half>(levels, affine, binary16);
    EXPECT_TRUE(at::equal(binary16, floats.to(at::kHalf)));
  }
}

TEST(KernelNormaliseImages, MatchesTheUsualFormulaWithinFloat32Rounding) {
  const data::Normalisation usual;
  const at::Tensor levels = at::arange(256, at::kByte).view({1, 256, 1}).repeat({1, 1, 3});
  const at::Tensor images = at::empty({1, 256, 3}, at::kFloat);
  normalise_on_host<float>(levels, usual.affine(), images);
  const auto vector = [](const std::array<double, 3>& of) {
    return at::tensor(std::vector<double>(of.begin(), of.end()));
  };
  const at::Tensor exact = (levels.to(at::kDouble) / 255 - vector(usual.mean)) / vector(usual.stddev);
  EXPECT_LT((images - exact).abs().max().item<double>(), 4e-7);
}

template <typename From, typename To>
void expect_cast(at::ScalarType from_type, at::ScalarType to_type) {
  for (const std::int64_t count : {0, 1, 7, 8, 100003}) {
    const at::Tensor from = (at::randn({count}) * 100).to(from_type);
    if (count > 7) {
      from[0] = std::numeric_limits<float>::quiet_NaN();
      from[3] = std::numeric_limits<float>::infinity();
      from[5] = -0.0F;
    }
    const at::Tensor to = at::empty({count}, to_type);
    const at::Tensor scale = at::tensor({0.3F});
    using Body = ScaledCast<From, To>;
    const int blocks = blocks_for(count, Body::K);
    run_threads(Body{{count, blocks}, values<From>(from), mutable_data<To>(to), values<float>(scale)}, blocks);
    const at::Tensor wanted = (from.to(at::kFloat) * scale).to(to_type);
    EXPECT_TRUE(at::allclose(to, wanted, 0, 0, /*equal_nan=*/true)) << at::toString(from_type) << " " << count;
  }
}

TEST(KernelCastAndScale, IsBitIdenticalToLibTorch) {
  at::manual_seed(22);
  expect_cast<float, float>(at::kFloat, at::kFloat);
  expect_cast<float, at::Half>(at::kFloat, at::kHalf);
  expect_cast<float, at::BFloat16>(at::kFloat, at::kBFloat16);
  expect_cast<at::Half, float>(at::kHalf, at::kFloat);
  expect_cast<at::BFloat16, float>(at::kBFloat16, at::kFloat);
}

}  // namespace
}  // namespace rollcall::device::kernels
