#include "trainer/data/augment/tone_curve.h"

#include <algorithm>

#include "trainer/data/augment/greyscale.h"

namespace rollcall::data {
namespace {

using Histogram = std::array<std::uint32_t, 256>;

std::array<Histogram, 3> histograms(const Levels& levels) {
  std::array<Histogram, 3> counts{};
  const std::uint8_t* pixel = levels.pixels;
  for (std::size_t i = 0; i < levels.count(); ++i, pixel += kPixelBytes) {
    ++counts[0][pixel[0]];
    ++counts[1][pixel[1]];
    ++counts[2][pixel[2]];
  }
  return counts;
}

/// The same curve for each channel.
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
    curve[static_cast<std::size_t>(level)] = truncated_level(above / scale);
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

}  // namespace

void ToneCurve::apply(const Levels& levels) const {
  std::uint8_t* pixel = levels.pixels;
  for (std::size_t i = 0; i < levels.count(); ++i, pixel += kPixelBytes) {
    pixel[0] = channels[0][pixel[0]];
    pixel[1] = channels[1][pixel[1]];
    pixel[2] = channels[2][pixel[2]];
  }
}

ToneCurve ToneCurve::brightness(double factor) {
  return same_for_all(
      [&](int level) { return truncated_level(static_cast<float>(level) * static_cast<float>(factor)); });
}

ToneCurve ToneCurve::contrast(const Levels& levels, double factor) {
  const auto ratio = static_cast<float>(factor);
  const float offset = static_cast<float>(1 - factor) * mean_grey(levels);
  return same_for_all([&](int level) { return truncated_level(static_cast<float>(level) * ratio + offset); });
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

ToneCurve ToneCurve::autocontrast(const Levels& levels) {
  const std::array<Histogram, 3> counts = histograms(levels);
  ToneCurve curve;
  for (std::size_t c = 0; c < 3; ++c) {
    stretch(counts[c], curve.channels[c]);
  }
  return curve;
}

ToneCurve ToneCurve::equalize(const Levels& levels) {
  const std::array<Histogram, 3> counts = histograms(levels);
  ToneCurve curve;
  for (std::size_t c = 0; c < 3; ++c) {
    flatten(counts[c], curve.channels[c]);
  }
  return curve;
}

}  // namespace rollcall::data
