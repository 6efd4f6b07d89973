#include "trainer/data/transforms/batch_mix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "runtime/base/bfloat16.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {
namespace {

/// Returns a uniform number in (0, 1), whose logarithm is finite.
double open_uniform(Random& random) { return std::max(random.uniform(), 0x1p-54); }

double standard_normal(Random& random) {  // method of Box and Muller
  const double radius = std::sqrt(-2 * std::log(open_uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

/// Returns the logarithm of a draw from Gamma(shape, 1).
double log_gamma_draw(double shape, Random& random) {
  // Gamma(a) = Gamma(a + 1) * U^(1/a) brings small shapes into the method's range.
  const double boost = shape < 1 ? std::log(open_uniform(random)) / shape : 0;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = standard_normal(random);
    const double root = 1 + c * x;
    if (root <= 0) {
      continue;
    }
    const double v = root * root * root;
    if (std::log(open_uniform(random)) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return boost + std::log(d * v);
    }
  }
}

/// Returns torchvision's box: its centre is uniform, its sides are sqrt(1 - lambda) of the picture's, cut off at the
/// edges.
Box cut_box(ImageSize size, double lambda, Random& random) {
  const auto centre_x = static_cast<int>(random.below(static_cast<std::uint32_t>(size.width)));
  const auto centre_y = static_cast<int>(random.below(static_cast<std::uint32_t>(size.height)));
  const double half = 0.5 * std::sqrt(1 - lambda);
  const int half_width = static_cast<int>(half * size.width);
  const int half_height = static_cast<int>(half * size.height);
  const int left = std::max(centre_x - half_width, 0);
  const int top = std::max(centre_y - half_height, 0);
  return {left, top, std::min(centre_x + half_width, size.width) - left,
          std::min(centre_y + half_height, size.height) - top};
}

float as_float(float value) { return value; }
float as_float(std::uint16_t bits) { return from_bfloat16(bits); }
float as_float(std::uint8_t level) { return level; }
void assign(float& to, float value) { to = value; }
void assign(std::uint16_t& to, float value) { to = to_bfloat16(value); }
void assign(std::uint8_t& to, float value) {
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): means of uint8 pixels are never negative
  to = static_cast<std::uint8_t>(value + 0.5F);
}

template <typename Element>
void blend(const OutputPixels& sample, const OutputPixels& partner, double lambda) {
  const auto own = static_cast<float>(lambda);
  const auto other = static_cast<float>(1 - lambda);
  auto* to = static_cast<Element*>(sample.data);
  const auto* from = static_cast<const Element*>(partner.data);
  for (std::size_t i = 0; i < sample.elements(); ++i) {
    assign(to[i], own * as_float(to[i]) + other * as_float(from[i]));
  }
}

void paste(const OutputPixels& sample, const OutputPixels& partner, const Box& box) {
  const std::size_t pixel = 3 * bytes_of(sample.type);
  for (int y = box.top; y < box.bottom(); ++y) {
    const std::size_t first = static_cast<std::size_t>(y * sample.width + box.left) * pixel;
    std::memcpy(static_cast<std::byte*>(sample.data) + first, static_cast<const std::byte*>(partner.data) + first,
                static_cast<std::size_t>(box.width) * pixel);
  }
}

}  // namespace

double symmetric_beta(double alpha, Random& random) {
  const double first = log_gamma_draw(alpha, random);
  const double second = log_gamma_draw(alpha, random);
  return 1 / (1 + std::exp(second - first));
}

BatchMix choose_mix(const AugmentOptions& options, ImageSize size, std::uint64_t seed, std::uint64_t epoch,
                    std::uint64_t step) {
  if (!options.mixes_batches()) {
    return {};
  }
  Random random(seed, Purpose::BatchMix, epoch, step);
  const bool heads = random.below(2) == 0;
  const bool mixup = options.mixup_alpha > 0 && (heads || options.cutmix_alpha <= 0);
  if (mixup) {
    return {.kind = BatchMix::Kind::MixUp, .lambda = symmetric_beta(options.mixup_alpha, random)};
  }
  BatchMix mix{.kind = BatchMix::Kind::CutMix};
  mix.box = cut_box(size, symmetric_beta(options.cutmix_alpha, random), random);
  const double area = static_cast<double>(size.width) * size.height;
  mix.lambda = 1 - static_cast<double>(mix.box.width) * mix.box.height / area;
  return mix;
}

void mix_into(const BatchMix& mix, const OutputPixels& sample, const OutputPixels& partner) {
  if (mix.kind == BatchMix::Kind::CutMix) {
    paste(sample, partner, mix.box);
  } else if (mix.kind == BatchMix::Kind::MixUp && sample.type == PixelType::Float32) {
    blend<float>(sample, partner, mix.lambda);
  } else if (mix.kind == BatchMix::Kind::MixUp && sample.type == PixelType::UInt8) {
    blend<std::uint8_t>(sample, partner, mix.lambda);
  } else if (mix.kind == BatchMix::Kind::MixUp) {
    blend<std::uint16_t>(sample, partner, mix.lambda);
  }
}

void mix_batch(const BatchMix& mix, std::span<const OutputPixels> samples, std::vector<std::byte>& last) {
  if (samples.empty() || mix.kind == BatchMix::Kind::None) {
    return;
  }
  OutputPixels kept = samples.back();
  const std::size_t bytes = kept.elements() * bytes_of(kept.type);
  const auto* begin = static_cast<const std::byte*>(kept.data);
  last.assign(begin, begin + bytes);
  kept.data = last.data();
  for (std::size_t i = samples.size() - 1; i > 0; --i) {
    mix_into(mix, samples[i], samples[mix_partner(i, samples.size())]);
  }
  mix_into(mix, samples[0], kept);
}

}  // namespace rollcall::data
