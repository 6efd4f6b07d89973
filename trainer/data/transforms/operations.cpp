#include "trainer/data/transforms/operations.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

namespace rollcall::data {
namespace {

using Histogram = std::array<std::uint32_t, 256>;

std::array<Histogram, 3> histograms(const UInt8Image& image) {
  std::array<Histogram, 3> counts{};
  const std::uint8_t* pixel = image.pixels;
  for (std::size_t i = 0; i < image.count(); ++i, pixel += kPixelBytes) {
    ++counts[0][pixel[0]];
    ++counts[1][pixel[1]];
    ++counts[2][pixel[2]];
  }
  return counts;
}

/// Returns a table with the same curve for each channel.
template <typename Function>
ToneCurve same_for_all(const Function& function) {
  ToneCurve curve;
  for (std::size_t level = 0; level < 256; ++level) {
    curve.channels[0][level] = function(static_cast<int>(level));
  }
  curve.channels[1] = curve.channels[0];
  curve.channels[2] = curve.channels[0];
  return curve;
}

void stretch(const Histogram& counts, std::array<std::uint8_t, 256>& curve) {
  int low = 0;
  int high = 255;
  while (low < 255 && counts[static_cast<std::size_t>(low)] == 0) {
    ++low;
  }
  while (high > low && counts[static_cast<std::size_t>(high)] == 0) {
    --high;
  }
  const bool flat = low == high;
  const float scale = flat ? 1.0F : static_cast<float>(high - low) * (1.0F / 255);
  for (int level = 0; level < 256; ++level) {
    const float above = static_cast<float>(flat ? level : level - low);
    curve[static_cast<std::size_t>(level)] = truncate_to_uint8(above / scale);
  }
}

void flatten(const Histogram& counts, std::array<std::uint8_t, 256>& curve) {
  std::uint32_t pixels = 0;
  std::uint32_t of_the_brightest = 0;
  for (const std::uint32_t count : counts) {
    pixels += count;
    of_the_brightest = count > 0 ? count : of_the_brightest;
  }
  const std::uint32_t step = (pixels - of_the_brightest) / 255;
  std::uint32_t below = step / 2;
  for (std::size_t level = 0; level < 256; ++level) {
    curve[level] = static_cast<std::uint8_t>(step == 0 ? level : std::min(below / step, 255U));
    below += counts[level];
  }
}

/// A colour as hue in sixths of a turn, 0 ... 6, and saturation and value, 0 ... 1.
struct Hsv {
  float hue6 = 0;
  float saturation = 0;
  float value = 0;
};

/// Converts as Pillow does, which torchvision follows; only differences and ratios of values matter.
Hsv to_hsv(const std::uint8_t* pixel) {
  const int r = pixel[0];
  const int g = pixel[1];
  const int b = pixel[2];
  const int most = std::max({r, g, b});
  const int range = most - std::min({r, g, b});
  if (range == 0) {
    return {0, 0, static_cast<float>(most) / 255};
  }
  const float inverse = 1.0F / static_cast<float>(range);
  float hue6 = 0;
  if (most == r) {
    hue6 = static_cast<float>(g - b) * inverse;
  } else if (most == g) {
    hue6 = 2 + static_cast<float>(b - r) * inverse;
  } else {
    hue6 = 4 + static_cast<float>(r - g) * inverse;
  }
  return {hue6 < 0 ? hue6 + 6 : hue6, static_cast<float>(range) / static_cast<float>(most),
          static_cast<float>(most) / 255};
}

/// Converts 0 ... 1 (or a rounding error outside) to 0 ... 255, as torchvision's to_dtype: 256 intervals of almost
/// equal length.
std::uint8_t to_value(float value) { return static_cast<std::uint8_t>(static_cast<int>(value * 255.999F)); }

/// The order of channels for each sixth of a turn: which of the value, the lowest, the falling and the rising one each
/// has.
constexpr std::uint8_t kChannels[6][3] = {{0, 3, 1}, {2, 0, 1}, {1, 0, 3}, {1, 2, 0}, {3, 1, 0}, {0, 1, 2}};

void from_hsv(const Hsv& colour, std::uint8_t* pixel) {
  const int sector = static_cast<int>(colour.hue6);
  const float fraction = colour.hue6 - static_cast<float>(sector);
  const std::uint8_t levels[4] = {to_value(colour.value), to_value(colour.value * (1 - colour.saturation)),
                                  to_value(colour.value * (1 - colour.saturation * fraction)),
                                  to_value(colour.value * (1 - colour.saturation * (1 - fraction)))};
  const std::uint8_t* channels = kChannels[sector < 6 ? sector : 0];
  for (int c = 0; c < 3; ++c) {
    pixel[c] = levels[channels[c]];
  }
}

/// A sharpened pixel value as a function of the sum of the nine values around it.
class Sharpened {
 public:
  explicit Sharpened(double factor) : rest_(static_cast<float>(1 - factor)) {}

  [[nodiscard]] std::uint8_t level(int sum_of_nine, int middle) const {
    const int blurred = (2 * (sum_of_nine + 4 * middle) + 13) / 26;  // rounded; 13 is odd, so there are no ties
    return truncate_to_uint8(static_cast<float>(middle) + rest_ * static_cast<float>(blurred - middle));
  }

 private:
  float rest_;
};

/// Sharpens the inner pixels of a row, from the sums of three vertically adjacent values.
void sharpen_row(const Sharpened& sharpened, const std::uint16_t* sums, const std::uint8_t* from, std::ptrdiff_t end,
                 std::uint8_t* to) {
  for (std::ptrdiff_t i = kPixelBytes; i < end - kPixelBytes; ++i) {
    to[i] = sharpened.level(sums[i - kPixelBytes] + sums[i] + sums[i + kPixelBytes], from[i]);
  }
}

enum class Step { Brightness, Contrast, Saturation, Hue };

std::array<Step, 4> random_order(Random& random) {
  std::array<Step, 4> order{Step::Brightness, Step::Contrast, Step::Saturation, Step::Hue};
  for (std::uint32_t left = 4; left > 1; --left) {  // shuffle of Fisher and Yates
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

/// Draws a factor around 1. It is drawn even if it is not used, so that enabling one operation does not change the
/// others.
double random_factor(double strength, Random& random) {
  return random.uniform(std::max(0.0, 1 - strength), 1 + strength);
}

}  // namespace

float mean_grey(const UInt8Image& image) {
  std::uint64_t sum = 0;
  const std::uint8_t* pixel = image.pixels;
  for (std::size_t i = 0; i < image.count(); ++i, pixel += kPixelBytes) {
    sum += to_grey(pixel);
  }
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(image.count()));
}

void ToneCurve::apply(const UInt8Image& image) const {
  std::uint8_t* pixel = image.pixels;
  for (std::size_t i = 0; i < image.count(); ++i, pixel += kPixelBytes) {
    pixel[0] = channels[0][pixel[0]];
    pixel[1] = channels[1][pixel[1]];
    pixel[2] = channels[2][pixel[2]];
  }
}

ToneCurve ToneCurve::brightness(double factor) {
  return same_for_all(
      [&](int level) { return truncate_to_uint8(static_cast<float>(level) * static_cast<float>(factor)); });
}

ToneCurve ToneCurve::contrast(const UInt8Image& image, double factor) {
  const auto ratio = static_cast<float>(factor);
  const float offset = static_cast<float>(1 - factor) * mean_grey(image);
  return same_for_all([&](int level) { return truncate_to_uint8(static_cast<float>(level) * ratio + offset); });
}

ToneCurve ToneCurve::posterize(int bits) {
  const int mask = ((1 << bits) - 1) << (8 - bits);
  return same_for_all([&](int level) { return static_cast<std::uint8_t>(level & mask); });
}

ToneCurve ToneCurve::solarize(double threshold) {
  return same_for_all([&](int level) {
    return static_cast<std::uint8_t>(static_cast<float>(level) >= static_cast<float>(threshold) ? 255 - level : level);
  });
}

ToneCurve ToneCurve::solarize_add(int added) {
  return same_for_all(
      [&](int level) { return static_cast<std::uint8_t>(level < 128 ? std::min(255, level + added) : level); });
}

ToneCurve ToneCurve::autocontrast(const UInt8Image& image) {
  const std::array<Histogram, 3> counts = histograms(image);
  ToneCurve curve;
  for (std::size_t c = 0; c < 3; ++c) {
    stretch(counts[c], curve.channels[c]);
  }
  return curve;
}

ToneCurve ToneCurve::equalize(const UInt8Image& image) {
  const std::array<Histogram, 3> counts = histograms(image);
  ToneCurve curve;
  for (std::size_t c = 0; c < 3; ++c) {
    flatten(counts[c], curve.channels[c]);
  }
  return curve;
}

void adjust_saturation(const UInt8Image& image, double factor) {
  const auto ratio = static_cast<float>(factor);
  const auto rest = static_cast<float>(1 - factor);
  std::uint8_t* pixel = image.pixels;
  for (std::size_t i = 0; i < image.count(); ++i, pixel += kPixelBytes) {
    const float grey = rest * static_cast<float>(to_grey(pixel));
    for (int c = 0; c < 3; ++c) {
      pixel[c] = truncate_to_uint8(static_cast<float>(pixel[c]) * ratio + grey);
    }
  }
}

void adjust_hue(const UInt8Image& image, double turns) {
  const auto shift = static_cast<float>(6 * turns);
  std::uint8_t* pixel = image.pixels;
  for (std::size_t i = 0; i < image.count(); ++i, pixel += kPixelBytes) {
    Hsv colour = to_hsv(pixel);
    colour.hue6 += shift;
    if (colour.hue6 < 0) {
      colour.hue6 += 6;
    } else if (colour.hue6 >= 6) {
      colour.hue6 -= 6;
    }
    from_hsv(colour, pixel);
  }
}

void adjust_sharpness(const UInt8Image& image, double factor, AugmentScratch& scratch) {
  if (image.width <= 2 || image.height <= 2) {
    return;
  }
  const Sharpened sharpened(factor);
  const std::ptrdiff_t row_bytes = std::ptrdiff_t{image.width} * kPixelBytes;
  scratch.copy.assign(image.bytes().begin(), image.bytes().end());
  scratch.sums.resize(static_cast<std::size_t>(row_bytes));
  for (int y = 1; y + 1 < image.height; ++y) {
    const std::uint8_t* from = scratch.copy.data() + y * row_bytes;
    for (std::ptrdiff_t i = 0; i < row_bytes; ++i) {
      const int sum = from[i - row_bytes] + from[i] + from[i + row_bytes];
      scratch.sums[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(sum);
    }
    sharpen_row(sharpened, scratch.sums.data(), from, row_bytes, image.at(0, y));
  }
}

void ColourJitter::apply(const UInt8Image& image, Random& random) const {
  const std::array<Step, 4> order = random_order(random);
  const double brightness = random_factor(options_.brightness, random);
  const double contrast = random_factor(options_.contrast, random);
  const double saturation = random_factor(options_.saturation, random);
  const double turns = random.uniform(-options_.hue, options_.hue);
  for (const Step step : order) {
    if (step == Step::Brightness && options_.brightness > 0) {
      ToneCurve::brightness(brightness).apply(image);
    } else if (step == Step::Contrast && options_.contrast > 0) {
      ToneCurve::contrast(image, contrast).apply(image);
    } else if (step == Step::Saturation && options_.saturation > 0) {
      adjust_saturation(image, saturation);
    } else if (step == Step::Hue && options_.hue > 0) {
      adjust_hue(image, turns);
    }
  }
}

namespace {

/// Maps output to source positions, both relative to the picture's centre: x' = m[0] x + m[1] y + m[2], y' = m[3] x +
/// m[4] y + m[5].
using Matrix = std::array<double, 6>;

/// Rounds to the nearest integer, ties to even, for |value| < 2^22: after adding 1.5 * 2^23 the last bit of a float is
/// 1. The library's functions would cost more than the rest of a pixel.
int nearest_integer(float value) {
  constexpr float kShift = 12582912.0F;
  return std::bit_cast<std::int32_t>(value + kShift) - std::bit_cast<std::int32_t>(kShift);
}

/// One coordinate of the source, in torchvision's order of float32 operations: converted to units of half the size,
/// then back to pixels, as in grid_sample.
struct Coordinate {
  float by_x = 0;
  float by_y = 0;
  float constant = 0;
  float half_size = 0;

  Coordinate(const double* row, int size) : half_size(0.5F * static_cast<float>(size)) {
    by_x = static_cast<float>(row[0]) / half_size;
    by_y = static_cast<float>(row[1]) / half_size;
    constant = static_cast<float>(row[2]) / half_size;
  }

  [[nodiscard]] int nearest(float x, float y) const {
    const float normalised = x * by_x + y * by_y + constant;
    return nearest_integer((normalised + 1) * half_size - 0.5F);
  }
};

void sample_nearest(const UInt8Image& image, const Matrix& matrix, AugmentScratch& scratch) {
  scratch.copy.assign(image.bytes().begin(), image.bytes().end());
  const UInt8Image source{scratch.copy.data(), image.width, image.height};
  const Coordinate across(&matrix[0], image.width);
  const Coordinate down(&matrix[3], image.height);
  const float left = 0.5F * static_cast<float>(1 - image.width);
  const float top = 0.5F * static_cast<float>(1 - image.height);
  for (int y = 0; y < image.height; ++y) {
    std::uint8_t* to = image.at(0, y);
    for (int x = 0; x < image.width; ++x, to += kPixelBytes) {
      const int from_x = across.nearest(left + static_cast<float>(x), top + static_cast<float>(y));
      const int from_y = down.nearest(left + static_cast<float>(x), top + static_cast<float>(y));
      std::uint32_t pixel = 0;
      if (from_x >= 0 && from_x < image.width && from_y >= 0 && from_y < image.height) {
        std::memcpy(&pixel, source.at(from_x, from_y), kPixelBytes);
      }
      std::memcpy(to, &pixel, kPixelBytes);
    }
  }
}

}  // namespace

void shear(const UInt8Image& image, double x, double y, AugmentScratch& scratch) {
  // The inverse of [1, x; y, 1] as torchvision composes it (one of the two is 0), around the top left corner.
  const double corner_x = -0.5 * image.width;
  const double corner_y = -0.5 * image.height;
  const Matrix matrix{1, x, -x * corner_y, y, 1, -y * corner_x};
  sample_nearest(image, matrix, scratch);
}

void translate(const UInt8Image& image, int x, int y, AugmentScratch& scratch) {
  const Matrix matrix{1, 0, -static_cast<double>(x), 0, 1, -static_cast<double>(y)};
  sample_nearest(image, matrix, scratch);
}

void rotate(const UInt8Image& image, double degrees, AugmentScratch& scratch) {
  const double angle = degrees * std::numbers::pi / 180;
  const Matrix matrix{std::cos(angle), -std::sin(angle), 0, std::sin(angle), std::cos(angle), 0};
  sample_nearest(image, matrix, scratch);
}

}  // namespace rollcall::data
