#include "trainer/data/transforms/timm_policy.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "trainer/data/transforms/operations.h"

namespace rollcall::data {
namespace {

/// Maps positions of the result to positions of the source, as Pillow's Image.transform(AFFINE).
using Matrix = std::array<double, 6>;

double between(double a, double b, double part) { return a + (b - a) * part; }

/// Pillow's BICUBIC of geometric transforms. Its terms vanish between equal levels, so that these stay as they are.
double between(const std::array<double, 4>& v, double part) {
  const double p2 = -v[0] + v[2];
  const double p3 = 2 * (v[0] - v[1]) + v[2] - v[3];
  const double p4 = -v[0] + v[1] - v[2] + v[3];
  return v[1] + part * (p2 + part * (p3 + part * p4));
}

/// A channel of the source at a position between pixels. Pixels beyond an edge are those of the edge.
class Sampled {
 public:
  Sampled(const UInt8Image& source, double x, double y)
      : source_(source),
        left_(std::floor(x - 0.5)),
        top_(std::floor(y - 0.5)),
        dx_(x - 0.5 - left_),
        dy_(y - 0.5 - top_) {}

  [[nodiscard]] std::uint8_t bilinear(int channel) const {
    return truncated(between(between(level(0, 0, channel), level(1, 0, channel), dx_),
                             between(level(0, 1, channel), level(1, 1, channel), dx_), dy_));
  }

  [[nodiscard]] std::uint8_t bicubic(int channel) const {
    std::array<double, 4> rows{};
    for (int y = 0; y < 4; ++y) {
      rows[static_cast<std::size_t>(y)] = between(
          {level(-1, y - 1, channel), level(0, y - 1, channel), level(1, y - 1, channel), level(2, y - 1, channel)},
          dx_);
    }
    return truncated(between(rows, dy_));
  }

 private:
  [[nodiscard]] double level(int x, int y, int channel) const {
    return source_.at(std::clamp(static_cast<int>(left_) + x, 0, source_.width - 1),
                      std::clamp(static_cast<int>(top_) + y, 0, source_.height - 1))[channel];
  }
  static std::uint8_t truncated(double value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)); }

  const UInt8Image& source_;
  double left_, top_;  ///< the pixel at or before the position
  double dx_, dy_;
};

void move(const UInt8Image& image, const Matrix& matrix, const Moving& moving, AugmentScratch& scratch) {
  scratch.copy.assign(image.bytes().begin(), image.bytes().end());
  const UInt8Image source{scratch.copy.data(), image.width, image.height};
  std::uint8_t* to = image.pixels;
  for (int row = 0; row < image.height; ++row) {
    for (int column = 0; column < image.width; ++column, to += kPixelBytes) {
      const double x = matrix[0] * (column + 0.5) + matrix[1] * (row + 0.5) + matrix[2];
      const double y = matrix[3] * (column + 0.5) + matrix[4] * (row + 0.5) + matrix[5];
      if (x < 0 || x >= image.width || y < 0 || y >= image.height) {
        std::ranges::copy(moving.fill, to);
        continue;
      }
      const Sampled sampled(source, x, y);
      for (int channel = 0; channel < 3; ++channel) {
        to[channel] =
            moving.interpolation == Interpolation::Bicubic ? sampled.bicubic(channel) : sampled.bilinear(channel);
      }
    }
  }
}

/// Pillow's Image.rotate(): counter-clockwise around the centre, with 15 decimals of sine and cosine.
Matrix rotation(double degrees, const UInt8Image& image) {
  constexpr double kDecimals = 1e15;
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = std::nearbyint(std::cos(angle) * kDecimals) / kDecimals;
  const double sine = std::nearbyint(std::sin(angle) * kDecimals) / kDecimals;
  const double x = image.width / 2.0;
  const double y = image.height / 2.0;
  return {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y};
}

}  // namespace

void apply(TimmOperation operation, double level, bool negative, const UInt8Image& image, const Moving& moving,
           AugmentScratch& scratch) {
  const double part = level / 10;
  const double sign = negative ? -1 : 1;
  const double factor = std::max(0.1, 1 + sign * (part * 0.9));
  switch (operation) {
    case TimmOperation::AutoContrast:
      return ToneCurve::autocontrast(image).apply(image);
    case TimmOperation::Equalize:
      return ToneCurve::equalize(image).apply(image);
    case TimmOperation::Invert:
      return ToneCurve::solarize(0).apply(image);
    case TimmOperation::Rotate:
      return move(image, rotation(sign * part * 30, image), moving, scratch);
    case TimmOperation::Posterize:
      return ToneCurve::posterize(4 - static_cast<int>(part * 4)).apply(image);
    case TimmOperation::Solarize:
      return ToneCurve::solarize(256 - static_cast<int>(part * 256)).apply(image);
    case TimmOperation::SolarizeAdd:
      return ToneCurve::solarize_add(static_cast<int>(part * 110)).apply(image);
    case TimmOperation::Colour:
      return adjust_saturation(image, factor);
    case TimmOperation::Contrast:
      return ToneCurve::contrast(image, factor).apply(image);
    case TimmOperation::Brightness:
      return ToneCurve::brightness(factor).apply(image);
    case TimmOperation::Sharpness:
      return adjust_sharpness(image, factor, scratch);
    case TimmOperation::ShearX:
      return move(image, {1, sign * part * 0.3, 0, 0, 1, 0}, moving, scratch);
    case TimmOperation::ShearY:
      return move(image, {1, 0, 0, sign * part * 0.3, 1, 0}, moving, scratch);
    case TimmOperation::TranslateX:
      return move(image, {1, 0, sign * part * 0.45 * image.width, 0, 1, 0}, moving, scratch);
    case TimmOperation::TranslateY:
      return move(image, {1, 0, 0, 0, 1, sign * part * 0.45 * image.height}, moving, scratch);
  }
}

void TimmRandAugment::apply(const UInt8Image& image, Random& random, AugmentScratch& scratch) const {
  for (int i = 0; i < operations_; ++i) {
    const auto operation = static_cast<TimmOperation>(random.below(kTimmOperations));
    if (random.below(2) == 0) {
      continue;
    }
    std::array<float, 2> normal{};  // two draws share a random word
    random.fill_normal(normal);
    const double level = std::clamp(magnitude_ + deviation_ * static_cast<double>(normal[0]), 0.0, 10.0);
    data::apply(operation, level, random.below(2) == 0, image, moving_, scratch);
  }
}

namespace {

constexpr std::size_t kChains = 3;

/// Draws from Dirichlet(1, 1, 1): exponential draws, divided by their sum.
std::array<float, kChains> random_weights(Random& random) {
  std::array<double, kChains> draws{};
  for (double& draw : draws) {
    draw = -std::log(1 - random.uniform());
  }
  const double sum = draws[0] + draws[1] + draws[2];
  std::array<float, kChains> weights{};
  std::ranges::transform(draws, weights.begin(), [&](double draw) { return static_cast<float>(draw / sum); });
  return weights;
}

/// The operations of AugMix: no Invert and no SolarizeAdd.
TimmOperation operation_of_augmix(Random& random) {
  auto number = static_cast<int>(random.below(kTimmOperations - 2));
  number += number >= static_cast<int>(TimmOperation::Invert) ? 1 : 0;
  return static_cast<TimmOperation>(number + (number >= static_cast<int>(TimmOperation::SolarizeAdd) ? 1 : 0));
}

}  // namespace

void TimmAugMix::apply_chain(const UInt8Image& image, Random& random, AugmentScratch& scratch) const {
  constexpr double kMostLevel = 3;
  const std::uint32_t depth = 1 + random.below(3);
  for (std::uint32_t i = 0; i < depth; ++i) {
    const TimmOperation operation = operation_of_augmix(random);
    const double level = random.uniform(0, kMostLevel);
    data::apply(operation, level, random.below(2) == 0, image, moving_, scratch);
  }
}

void TimmAugMix::apply(const UInt8Image& image, Random& random, AugmentScratch& scratch) const {
  const std::array<float, kChains> weights = random_weights(random);
  const auto part = static_cast<float>(random.uniform());
  const std::span<std::uint8_t> own = image.bytes();
  scratch.mixed.assign(own.size(), 0);
  for (const float weight : weights) {
    scratch.chain.assign(own.begin(), own.end());
    apply_chain({scratch.chain.data(), image.width, image.height}, random, scratch);
    for (std::size_t i = 0; i < own.size(); ++i) {
      scratch.mixed[i] += weight * static_cast<float>(scratch.chain[i]);
    }
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    const int other = truncate_to_uint8(scratch.mixed[i]);
    own[i] = truncate_to_uint8(static_cast<float>(own[i]) + part * static_cast<float>(other - own[i]));
  }
}

}  // namespace rollcall::data
