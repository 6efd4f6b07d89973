#include "trainer/data/image/resize_kernels.h"
#include "runtime/base/bfloat16.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "trainer/data/image/resize.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {
namespace {

/// A picture of random levels whose memory ends 16 bytes behind its last pixel.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;

  Picture(int width_, int height_, std::mt19937& random) : width(width_), height(height_) {
    pixels.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 4 + 16);
    std::ranges::generate(pixels, [&] { return static_cast<std::uint8_t>(random()); });
  }

  [[nodiscard]] PixelView view() const {
    return {pixels.data(), static_cast<std::ptrdiff_t>(width) * 4, {0, 0, width, height}};
  }

  /// A view of no more than a box.
  [[nodiscard]] PixelView view(const Box& box) const {
    const PixelView whole = view();
    return {whole.at(box.left, box.top), whole.row_bytes, box};
  }
};

int uniform(std::mt19937& random, int low, int high) { return std::uniform_int_distribution(low, high)(random); }

/// A part of at most 80 positions in `size`, sometimes at its ends.
void random_part(std::mt19937& random, int size, int& begin, int& length) {
  length = uniform(random, 1, std::min(size, 80));
  begin = uniform(random, 0, 3) == 0 ? size - length : uniform(random, 0, size - length);
}

Resize random_request(std::mt19937& random, const Picture& picture) {
  const int largest[] = {1, 2, 5, 40, 300};
  Resize request;
  request.source.width = uniform(random, 1, std::min(picture.width, largest[random() % 5] * 2));
  request.source.height = uniform(random, 1, std::min(picture.height, largest[random() % 5] * 2));
  request.source.left = uniform(random, 0, picture.width - request.source.width);
  request.source.top = uniform(random, 0, picture.height - request.source.height);
  request.width = uniform(random, 1, largest[random() % 5]);
  request.height = uniform(random, 1, largest[random() % 5]);
  random_part(random, request.width, request.wanted.left, request.wanted.width);
  random_part(random, request.height, request.wanted.top, request.wanted.height);
  request.flip = random() % 2 == 0;
  request.flip_vertically = random() % 2 == 0;
  return request;
}

constexpr ChannelAffine kAffine{.scale = {0.0171247F, 0.0175070F, 0.0174292F}, .bias = {-2.1179F, -2.0357F, -1.8044F}};

/// The output of kernels for a request, between two guards that must not change.
template <typename Element>
std::vector<Element> run(const Picture& picture, const Resize& request, const ResizeKernels& kernels) {
  constexpr std::size_t kGuard = 16;
  const std::size_t channels = sizeof(Element) == 1 ? 4 : 3;
  const std::size_t elements = static_cast<std::size_t>(request.wanted.width * request.wanted.height) * channels;
  std::vector<Element> memory(elements + 2 * kGuard, Element{77});
  const PixelView view = picture.view(needed(request));
  if constexpr (sizeof(Element) == 1) {
    resize_to_uint8(view, request, memory.data() + kGuard, kernels);
  } else {
    const PixelType type = sizeof(Element) == 4 ? PixelType::Float32 : PixelType::BFloat16;
    resize(view, request, kAffine, {memory.data() + kGuard, type, request.wanted.width, request.wanted.height},
           kernels);
  }
  for (std::size_t i = 0; i < kGuard; ++i) {
    EXPECT_EQ(memory[i], Element{77});
    EXPECT_EQ(memory[kGuard + elements + i], Element{77});
  }
  return {memory.begin() + kGuard, memory.end() - kGuard};
}

template <typename Element>
bool same_bits(const std::vector<Element>& a, const std::vector<Element>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Element)) == 0;
}

class ResizeKernel : public testing::TestWithParam<const ResizeKernels*> {};

TEST_P(ResizeKernel, IsBitIdenticalToTheReference) {
  std::mt19937 random(1);
  const Picture large(641, 517, random);
  const Picture small(7, 5, random);
  for (int i = 0; i < 1500; ++i) {
    const Picture& picture = i % 4 == 0 ? small : large;
    const Resize request = random_request(random, picture);
    ASSERT_TRUE(same_bits(run<float>(picture, request, *GetParam()), run<float>(picture, request, kPortableResize)));
    ASSERT_TRUE(same_bits(run<std::uint16_t>(picture, request, *GetParam()),
                          run<std::uint16_t>(picture, request, kPortableResize)));
    ASSERT_TRUE(same_bits(run<std::uint8_t>(picture, request, *GetParam()),
                          run<std::uint8_t>(picture, request, kPortableResize)));
  }
}

TEST_P(ResizeKernel, ReducesAHugeImageToAPixelAndEnlargesAPixel) {
  std::mt19937 random(2);
  const Picture picture(4000, 900, random);
  for (const Box& source : {Box{0, 0, 4000, 900}, Box{3999, 899, 1, 1}, Box{0, 899, 4000, 1}, Box{3999, 0, 1, 900}}) {
    for (const int side : {1, 2, 33}) {
      const Resize request{.source = source, .width = side, .height = side, .wanted = {0, 0, side, side}};
      const std::vector<float> values = run<float>(picture, request, *GetParam());
      ASSERT_TRUE(same_bits(values, run<float>(picture, request, kPortableResize)));
      ASSERT_TRUE(std::ranges::all_of(values, [](float value) { return value > -2.2F && value < 2.7F; }));
    }
  }
}

TEST_P(ResizeKernel, RoundsBFloat16AndLevelsFromTheFloats) {
  std::mt19937 random(3);
  const Picture picture(200, 150, random);
  for (int i = 0; i < 200; ++i) {
    const Resize request = random_request(random, picture);
    const std::vector<float> floats = run<float>(picture, request, *GetParam());
    const std::vector<std::uint16_t> halves = run<std::uint16_t>(picture, request, *GetParam());
    const std::vector<std::uint8_t> levels = run<std::uint8_t>(picture, request, *GetParam());
    for (std::size_t k = 0; k < floats.size(); ++k) {
      ASSERT_EQ(halves[k], to_bfloat16(floats[k]));
      const float level = (floats[k] - kAffine.bias[k % 3]) / kAffine.scale[k % 3];
      ASSERT_NEAR(levels[k / 3 * 4 + k % 3], level, 0.5 + 1e-3);
    }
    for (std::size_t k = 3; k < levels.size(); k += 4) {
      ASSERT_EQ(levels[k], 0);
    }
  }
}

TEST_P(ResizeKernel, WindowEqualsTheCropOfTheFullResult) {
  std::mt19937 random(4);
  const Picture picture(120, 90, random);
  Resize request{.source = {3, 5, 100, 80}, .width = 37, .height = 29, .wanted = {0, 0, 37, 29}};
  const std::vector<float> whole = run<float>(picture, request, *GetParam());
  for (int i = 0; i < 300; ++i) {
    random_part(random, request.width, request.wanted.left, request.wanted.width);
    random_part(random, request.height, request.wanted.top, request.wanted.height);
    const std::vector<float> part = run<float>(picture, request, *GetParam());
    for (int y = 0; y < request.wanted.height; ++y) {
      const auto from = static_cast<std::size_t>((request.wanted.top + y) * 37 + request.wanted.left) * 3;
      const auto row = static_cast<std::size_t>(y * request.wanted.width) * 3;
      ASSERT_EQ(std::memcmp(&part[row], &whole[from], static_cast<std::size_t>(request.wanted.width) * 12), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ResizeKernel,
                         testing::ValuesIn(usable_resize_kernels().begin(), usable_resize_kernels().end()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace rollcall::data
