#include "trainer/data/image/resize.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/support/rgb_image.h"

namespace rollcall::data {
namespace {

test::RgbImage random_image(int width, int height, unsigned seed) {
  std::mt19937 random(seed);
  test::RgbImage image{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i) {
    image.pixels.push_back(static_cast<std::uint8_t>(random()));
  }
  return image;
}

/// The definition, pixel by pixel, in double: the product of two triangle filters, renormalised.
double reference(const test::RgbImage& image, const Resize& request, int x, int y, int c) {
  const auto triangle = [](int in, int out, int position, int i) {
    const double scale = static_cast<double>(in) / out;
    const double centre = (position + 0.5) * scale;
    return std::max(0.0, 1 - std::abs(i + 0.5 - centre) / std::max(scale, 1.0));
  };
  double sum = 0;
  double weights = 0;
  for (int j = 0; j < request.source.height; ++j) {
    for (int i = 0; i < request.source.width; ++i) {
      const double weight =
          triangle(request.source.width, request.width, x, i) * triangle(request.source.height, request.height, y, j);
      weights += weight;
      sum += weight * image.pixels[static_cast<std::size_t>(
                          ((request.source.top + j) * image.width + request.source.left + i) * 3 + c)];
    }
  }
  return sum / weights;
}

std::vector<float> run(const test::RgbImage& image, const Resize& request, const ChannelAffine& affine = {}) {
  std::vector<float> out(static_cast<std::size_t>(request.wanted.width * request.wanted.height * 3), -1.0F);
  resize(test::RgbxPixels(image).view(), request, affine,
         {out.data(), PixelType::Float32, request.wanted.width, request.wanted.height});
  return out;
}

TEST(ResizeImage, AgreesWithTheDefinitionOfTheTriangleFilter) {
  const test::RgbImage image = random_image(61, 47, 1);
  const Resize requests[] = {
      {.source = {0, 0, 61, 47}, .width = 20, .height = 16, .wanted = {0, 0, 20, 16}},
      {.source = {5, 7, 50, 33}, .width = 31, .height = 31, .wanted = {0, 0, 31, 31}},
      {.source = {5, 7, 8, 8}, .width = 32, .height = 32, .wanted = {0, 0, 32, 32}},
      {.source = {60, 46, 1, 1}, .width = 9, .height = 9, .wanted = {0, 0, 9, 9}},
      {.source = {0, 0, 61, 47}, .width = 27, .height = 21, .wanted = {5, 2, 16, 16}},
      {.source = {0, 0, 61, 2}, .width = 1, .height = 40, .wanted = {0, 0, 1, 40}},
  };
  for (const Resize& request : requests) {
    const std::vector<float> out = run(image, request);
    std::size_t at = 0;
    for (int y = 0; y < request.wanted.height; ++y) {
      for (int x = 0; x < request.wanted.width; ++x) {
        for (int c = 0; c < 3; ++c) {
          ASSERT_NEAR(out[at++], reference(image, request, request.wanted.left + x, request.wanted.top + y, c), 1e-3);
        }
      }
    }
  }
}

TEST(ResizeImage, SameSizeIsACopy) {
  const test::RgbImage image = random_image(17, 9, 2);
  const auto out = run(image, {.source = {0, 0, 17, 9}, .width = 17, .height = 9, .wanted = {0, 0, 17, 9}});
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(out[i], image.pixels[i]);
  }
}

TEST(ResizeImage, PixelsOutsideTheSourceHaveNoInfluence) {
  test::RgbImage image = random_image(40, 40, 3);
  const Resize request{.source = {10, 10, 20, 20}, .width = 7, .height = 7, .wanted = {0, 0, 7, 7}};
  const auto before = run(image, request);
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 40; ++x) {
      if (x < 10 || x >= 30 || y < 10 || y >= 30) {
        image.pixels[static_cast<std::size_t>(y * 40 + x) * 3] ^= 0xff;
      }
    }
  }
  EXPECT_EQ(run(image, request), before);
}

TEST(ResizeImage, FlipMirrorsTheWindowExactly) {
  const test::RgbImage image = random_image(33, 21, 4);
  Resize request{.source = {1, 2, 30, 18}, .width = 12, .height = 10, .wanted = {1, 0, 10, 10}};
  const auto straight = run(image, request);
  request.flip = true;
  const auto mirrored = run(image, request);
  for (int y = 0; y < 10; ++y) {
    for (int x = 0; x < 10; ++x) {
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(mirrored[static_cast<std::size_t>((y * 10 + x) * 3 + c)],
                  straight[static_cast<std::size_t>((y * 10 + 9 - x) * 3 + c)]);
      }
    }
  }
}

TEST(ResizeImage, EachChannelIsScaledAndShifted) {
  const test::RgbImage image = random_image(8, 8, 5);
  const Resize request{.source = {0, 0, 8, 8}, .width = 4, .height = 4, .wanted = {0, 0, 4, 4}};
  const auto levels = run(image, request);
  const auto out = run(image, request, {.scale = {2, 0.5F, 1}, .bias = {0, 1, -3}});
  for (std::size_t i = 0; i < out.size(); i += 3) {
    EXPECT_FLOAT_EQ(out[i], levels[i] * 2);
    EXPECT_FLOAT_EQ(out[i + 1], levels[i + 1] * 0.5F + 1);
    EXPECT_FLOAT_EQ(out[i + 2], levels[i + 2] - 3);
  }
}

TEST(ResizeImage, ConstantImageStaysConstant) {
  test::RgbImage image = random_image(50, 30, 6);
  std::ranges::fill(image.pixels, std::uint8_t{77});
  for (const int size : {1, 7, 29, 224}) {
    for (const float value :
         run(image, {.source = {0, 0, 50, 30}, .width = size, .height = size, .wanted = {0, 0, size, size}})) {
      ASSERT_NEAR(value, 77, 1e-3);
    }
  }
}

TEST(ResizeImage, VerticalFlipReversesTheRows) {
  const test::RgbImage image = random_image(33, 21, 7);
  Resize request{.source = {1, 2, 30, 18}, .width = 12, .height = 11, .wanted = {1, 0, 10, 11}};
  const auto straight = run(image, request);
  request.flip_vertically = true;
  const auto turned = run(image, request);
  for (std::size_t y = 0; y < 11; ++y) {
    for (std::size_t i = 0; i < 30; ++i) {
      ASSERT_EQ(turned[y * 30 + i], straight[(10 - y) * 30 + i]);
    }
  }
}

/// Which columns or rows have influence, from the definition of the triangle.
Box influence(const Resize& request) {
  const auto along = [](int in, int out, int begin, int count, int& first, int& length) {
    const double scale = static_cast<double>(in) / out;
    const double support = std::max(scale, 1.0);
    first = in;
    int last = 0;
    for (int i = 0; i < in; ++i) {
      for (const int position : {begin, begin + count - 1}) {
        if (std::abs(i + 0.5 - (position + 0.5) * scale) < support - 1e-9) {
          first = std::min(first, i);
          last = std::max(last, i + 1);
        }
      }
    }
    length = last - first;
  };
  Box box;
  along(request.source.width, request.width, request.wanted.left, request.wanted.width, box.left, box.width);
  along(request.source.height, request.height, request.wanted.top, request.wanted.height, box.top, box.height);
  box.left += request.source.left;
  box.top += request.source.top;
  return box;
}

TEST(NeededBox, CoversAllInfluencingPixelsAndHardlyMore) {
  std::mt19937 random(8);
  const auto below = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  for (int i = 0; i < 5000; ++i) {
    Resize request{.source = {below(50), below(50), 1 + below(300), 1 + below(300)},
                   .width = 1 + below(300),
                   .height = 1 + below(300)};
    request.wanted.width = 1 + below(request.width);
    request.wanted.height = 1 + below(request.height);
    request.wanted.left = below(request.width - request.wanted.width + 1);
    request.wanted.top = below(request.height - request.wanted.height + 1);
    const Box box = needed(request);
    const Box least = influence(request);
    ASSERT_LE(box.left, least.left);
    ASSERT_GE(box.right(), least.right());
    ASSERT_LE(least.left - box.left, 1);
    ASSERT_LE(box.right() - least.right(), 1);
    ASSERT_LE(box.top, least.top);
    ASSERT_GE(box.bottom(), least.bottom());
    ASSERT_LE(least.top - box.top, 1);
    ASSERT_LE(box.bottom() - least.bottom(), 1);
    ASSERT_GE(box.left, request.source.left);
    ASSERT_LE(box.bottom(), request.source.bottom());
  }
}

TEST(HalvedResize, CoversTheSourceAndStaysInTheImage) {
  std::mt19937 random(9);
  const auto below = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  for (int i = 0; i < 2000; ++i) {
    const ImageSize picture{1 + below(99), 1 + below(99)};
    Resize request{.source = {below(picture.width), below(picture.height), 0, 0}, .width = 9, .height = 9};
    request.source.width = 1 + below(picture.width - request.source.left);
    request.source.height = 1 + below(picture.height - request.source.top);
    request.wanted = {0, 0, 9, 9};
    const Resize half = halved(request);
    const Box box = doubled(half.source, picture);
    ASSERT_EQ(box.left % 2 + box.top % 2, 0);
    ASSERT_LE(request.source.left - box.left, 1);
    ASSERT_LE(box.left, request.source.left);
    ASSERT_GE(box.right(), request.source.right());
    ASSERT_LE(box.right(), std::min(picture.width, request.source.right() + 1));
    ASSERT_GE(box.bottom(), request.source.bottom());
    ASSERT_LE(box.bottom(), std::min(picture.height, request.source.bottom() + 1));
    ASSERT_LE(half.source.right(), (picture.width + 1) / 2);
  }
}

}  // namespace
}  // namespace rollcall::data
