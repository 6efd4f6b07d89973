#include "trainer/data/transforms/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/bfloat16.h"
#include "trainer/data/pixels.h"
#include "trainer/data/transforms/operations.h"
#include "trainer/data/transforms/policy.h"
#include "trainer/data/transforms/three_augment.h"
#include "trainer/data/transforms/timm_policy.h"

namespace rollcall::data {
namespace {

constexpr double kScaleMin = 0.02;
constexpr double kScaleMax = 0.33;
constexpr double kRatioMin = 0.3;
constexpr double kRatioMax = 3.3;

/// Writes a row of normalised values, beginning with a red one.
void write_floats(std::byte* to, PixelType type, const std::vector<float>& values, const Normalisation& normalisation) {
  if (type == PixelType::UInt8) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      to[i] = std::byte{normalisation.nearest_uint8(values[i], i % 3)};
    }
    return;
  }
  if (type == PixelType::Float32) {
    std::memcpy(to, values.data(), values.size() * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = to_bfloat16(values[i]);
    std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace

std::optional<Box> RandomErasing::choose(ImageSize size, Random& random) const {
  if (random.uniform() >= probability_) {
    return std::nullopt;
  }
  const double area = static_cast<double>(size.width) * size.height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double erased = area * random.uniform(kScaleMin, kScaleMax);
    const double ratio = std::exp(random.uniform(std::log(kRatioMin), std::log(kRatioMax)));
    const int height = static_cast<int>(std::nearbyint(std::sqrt(erased * ratio)));
    const int width = static_cast<int>(std::nearbyint(std::sqrt(erased / ratio)));
    if (height < size.height && width < size.width) {
      const auto top = static_cast<int>(random.below(static_cast<std::uint32_t>(size.height - height) + 1));
      const auto left = static_cast<int>(random.below(static_cast<std::uint32_t>(size.width - width) + 1));
      return Box{left, top, width, height};
    }
  }
  return std::nullopt;
}

void RandomErasing::apply(const OutputPixels& out, Random& random, AugmentScratch& scratch,
                          const Normalisation& normalisation) const {
  const std::optional<Box> box = choose({out.width, out.height}, random);
  if (!box) {
    return;
  }
  const std::size_t element = bytes_of(out.type);
  auto* begin = static_cast<std::byte*>(out.data);
  scratch.noise.assign(static_cast<std::size_t>(box->width) * 3, 0.0F);
  for (int y = box->top; y < box->bottom(); ++y) {
    if (value_ == EraseValue::Random) {
      random.fill_normal(scratch.noise);
    }
    const std::ptrdiff_t first = (std::ptrdiff_t{y} * out.width + box->left) * 3;
    write_floats(begin + first * static_cast<std::ptrdiff_t>(element), out.type, scratch.noise, normalisation);
  }
}

namespace {

/// Rounds like Python's round(): ties to even (the default rounding mode).
int round_to_int(double value) { return static_cast<int>(std::nearbyint(value)); }

Box central_box(int width, int height, double ratio_min, double ratio_max) {
  Box box{.width = width, .height = height};
  const double ratio = static_cast<double>(width) / height;
  if (ratio < ratio_min) {
    box.height = std::clamp(round_to_int(width / ratio_min), 1, height);
  } else if (ratio > ratio_max) {
    box.width = std::clamp(round_to_int(height * ratio_max), 1, width);
  }
  box.left = (width - box.width) / 2;
  box.top = (height - box.height) / 2;
  return box;
}

int random_offset(int room, Random& random) {
  return static_cast<int>(random.below(static_cast<std::uint32_t>(room) + 1));
}

void apply_policy(const AugmentOptions& augment, const Moving& moving, const UInt8Image& image, Random& random,
                  AugmentScratch& scratch) {
  switch (augment.policy) {
    case AugmentPolicy::None:
      return;
    case AugmentPolicy::RandAugment:
      return RandAugment(augment.randaugment_ops, augment.randaugment_magnitude).apply(image, random, scratch);
    case AugmentPolicy::TrivialAugmentWide:
      return TrivialAugmentWide().apply(image, random, scratch);
    case AugmentPolicy::TimmRandAugment:
      return TimmRandAugment(augment.randaugment_ops, augment.randaugment_magnitude, augment.randaugment_mstd, moving)
          .apply(image, random, scratch);
    case AugmentPolicy::AugMix:
      return TimmAugMix(moving).apply(image, random, scratch);
    case AugmentPolicy::ThreeAugment:
      return three_augment(image, random, scratch);
  }
}

/// Bytes after the last pixel of a view that may be read.
constexpr std::size_t kReadable = 16;

void resize_and_augment(const PixelView& view, const Resize& plan, const AugmentOptions& augment,
                        const Normalisation& normalisation, Random& random, AugmentScratch& scratch) {
  const UInt8Image shape{nullptr, plan.wanted.width, plan.wanted.height};
  scratch.pixels.resize(shape.count() * kPixelBytes + kReadable);
  const UInt8Image image{scratch.pixels.data(), shape.width, shape.height};
  resize_to_uint8(view, plan, image.pixels);
  apply_policy(augment, {plan.interpolation, normalisation.mean_levels()}, image, random, scratch);
  if (augment.colour_jitter.any()) {
    ColourJitter(augment.colour_jitter).apply(image, random);
  }
}

/// Copies red, green and blue of each pixel.
void copy_rgb(const AugmentScratch& scratch, const OutputPixels& out) {
  auto* to = static_cast<std::uint8_t*>(out.data);
  const std::uint8_t* from = scratch.pixels.data();
  for (const std::uint8_t* const end = to + out.elements(); to != end; to += 3, from += kPixelBytes) {
    to[0] = from[0];
    to[1] = from[1];
    to[2] = from[2];
  }
}

/// Scales and shifts each value, as a resize to the same size.
void normalise(const AugmentScratch& scratch, ImageSize size, const ChannelAffine& affine, const OutputPixels& out) {
  const Box all{0, 0, size.width, size.height};
  const PixelView view{scratch.pixels.data(), std::ptrdiff_t{size.width} * kPixelBytes, all};
  resize(view, {.source = all, .width = size.width, .height = size.height, .wanted = all}, affine, out);
}

/// Bicubic results are rounded to levels, as in Pillow, since they may lie outside 0 ... 255.
void resize_augment_and_normalise(const PixelView& view, const Resize& plan, const AugmentOptions& augment,
                                  const Normalisation& normalisation, Random& random, const OutputPixels& out,
                                  AugmentScratch& scratch) {
  const bool as_levels = augment.needs_uint8() || plan.interpolation == Interpolation::Bicubic;
  if (out.type != PixelType::UInt8 && !as_levels) {
    resize(view, plan, normalisation.affine(), out);
    return;
  }
  resize_and_augment(view, plan, augment, normalisation, random, scratch);
  if (out.type == PixelType::UInt8) {
    copy_rgb(scratch, out);
  } else {
    normalise(scratch, {out.width, out.height}, normalisation.affine(), out);
  }
}

}  // namespace

ChannelAffine Normalisation::affine() const {
  ChannelAffine result;
  for (std::size_t c = 0; c < 3; ++c) {
    result.scale[c] = static_cast<float>(1 / (255 * stddev[c]));
    result.bias[c] = static_cast<float>(-mean[c] / stddev[c]);
  }
  return result;
}

std::array<std::uint8_t, 3> Normalisation::mean_levels() const {
  return {nearest_uint8(0, 0), nearest_uint8(0, 1), nearest_uint8(0, 2)};
}

std::uint8_t Normalisation::nearest_uint8(float value, std::size_t channel) const {
  const double level = 255 * (static_cast<double>(value) * stddev[channel] + mean[channel]);
  return static_cast<std::uint8_t>(std::clamp(std::nearbyint(level), 0.0, 255.0));
}

Box RandomCrop::choose(int width, int height, Random& random) const {
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * random.uniform(scale_min, scale_max);
    const double ratio = std::exp(random.uniform(std::log(ratio_min), std::log(ratio_max)));
    const int w = round_to_int(std::sqrt(target * ratio));
    const int h = round_to_int(std::sqrt(target / ratio));
    if (w > 0 && w <= width && h > 0 && h <= height) {
      const int top = random_offset(height - h, random);
      const int left = random_offset(width - w, random);
      return {.left = left, .top = top, .width = w, .height = h};
    }
  }
  return central_box(width, height, ratio_min, ratio_max);
}

Resize TrainTransform::plan(ImageSize size, Random& random) const {
  Resize plan{.source = crop.choose(size.width, size.height, random), .width = image_size, .height = image_size};
  plan.wanted = {0, 0, image_size, image_size};
  plan.interpolation = interpolation;
  plan.flip = random.uniform() < flip_probability;
  plan.flip_vertically = vertical_flip_probability > 0 && random.uniform() < vertical_flip_probability;
  return plan;
}

void TrainTransform::apply(const PixelView& view, const Resize& plan, Random& random, const OutputPixels& out,
                           AugmentScratch& scratch) const {
  resize_augment_and_normalise(view, plan, augment, normalisation, random, out, scratch);
  if (augment.erase_probability > 0) {
    RandomErasing(augment.erase_probability, augment.erase_value).apply(out, random, scratch, normalisation);
  }
}

Resize EvalTransform::plan(ImageSize size, Random& /*random*/) const {
  const int shorter = std::min(size.width, size.height);
  const auto resized = [&](int side) {
    return static_cast<int>(static_cast<std::int64_t>(resize_size) * side / shorter);  // torchvision truncates too
  };
  Resize plan{.source = {0, 0, size.width, size.height}, .width = resized(size.width), .height = resized(size.height)};
  plan.wanted = {round_to_int((plan.width - image_size) / 2.0), round_to_int((plan.height - image_size) / 2.0),
                 image_size, image_size};
  plan.interpolation = interpolation;
  return plan;
}

void EvalTransform::apply(const PixelView& view, const Resize& plan, Random& random, const OutputPixels& out,
                          AugmentScratch& scratch) const {
  resize_augment_and_normalise(view, plan, {}, normalisation, random, out, scratch);
}

}  // namespace rollcall::data
