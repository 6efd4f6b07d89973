#include "trainer/data/transforms/policy.h"

#include <cmath>

#include "trainer/data/transforms/operations.h"

namespace rollcall::data {
namespace {

/// Returns the value of torch.linspace(first, last, 31) at a bin: counted from the nearer end, rounded once.
double linear(double first, double last, int bin) {
  const auto low = static_cast<float>(first);
  const auto high = static_cast<float>(last);
  const float step = (high - low) / (kMagnitudeBins - 1);
  return bin < kMagnitudeBins / 2 ? std::fma(step, static_cast<float>(bin), low)
                                  : std::fma(-step, static_cast<float>(kMagnitudeBins - 1 - bin), high);
}

/// Returns 8 bits at bin 0, and `lost` fewer at the last one.
double bits_left(int lost, int bin) {
  const float step = static_cast<float>(kMagnitudeBins - 1) / static_cast<float>(lost);
  return std::nearbyint(8 - static_cast<float>(bin) / step);
}

/// Returns the end of an operation's range, which begins at 0.
struct Ranges {
  double shear;
  double translate_x;
  double translate_y;
  double rotate;
  double factor;
  int lost_bits;
};

Ranges ranges_of(AugmentPolicy policy, ImageSize size) {
  if (policy == AugmentPolicy::RandAugment) {
    return {0.3, 150.0 / 331.0 * size.width, 150.0 / 331.0 * size.height, 30, 0.9, 4};
  }
  return {0.99, 32, 32, 135, 0.99, 6};
}

Operation random_operation(Random& random) { return static_cast<Operation>(random.below(kOperations)); }

void apply_at(AugmentPolicy policy, Operation operation, int bin, const UInt8Image& image, Random& random,
              AugmentScratch& scratch) {
  double magnitude = magnitude_of(policy, operation, bin, {image.width, image.height});
  if (is_signed(operation) && random.below(2) == 0) {
    magnitude = -magnitude;
  }
  apply(operation, magnitude, image, scratch);
}

}  // namespace

void apply(Operation operation, double magnitude, const UInt8Image& image, AugmentScratch& scratch) {
  switch (operation) {
    case Operation::Identity:
      return;
    case Operation::ShearX:
      return shear(image, magnitude, 0, scratch);
    case Operation::ShearY:
      return shear(image, 0, magnitude, scratch);
    case Operation::TranslateX:
      return translate(image, static_cast<int>(magnitude), 0, scratch);
    case Operation::TranslateY:
      return translate(image, 0, static_cast<int>(magnitude), scratch);
    case Operation::Rotate:
      return rotate(image, magnitude, scratch);
    case Operation::Brightness:
      return ToneCurve::brightness(1 + magnitude).apply(image);
    case Operation::Colour:
      return adjust_saturation(image, 1 + magnitude);
    case Operation::Contrast:
      return ToneCurve::contrast(image, 1 + magnitude).apply(image);
    case Operation::Sharpness:
      return adjust_sharpness(image, 1 + magnitude, scratch);
    case Operation::Posterize:
      return ToneCurve::posterize(static_cast<int>(magnitude)).apply(image);
    case Operation::Solarize:
      return ToneCurve::solarize(255 * magnitude).apply(image);
    case Operation::AutoContrast:
      return ToneCurve::autocontrast(image).apply(image);
    case Operation::Equalize:
      return ToneCurve::equalize(image).apply(image);
  }
}

double magnitude_of(AugmentPolicy policy, Operation operation, int bin, ImageSize size) {
  const Ranges ranges = ranges_of(policy, size);
  switch (operation) {
    case Operation::ShearX:
    case Operation::ShearY:
      return linear(0, ranges.shear, bin);
    case Operation::TranslateX:
      return linear(0, ranges.translate_x, bin);
    case Operation::TranslateY:
      return linear(0, ranges.translate_y, bin);
    case Operation::Rotate:
      return linear(0, ranges.rotate, bin);
    case Operation::Brightness:
    case Operation::Colour:
    case Operation::Contrast:
    case Operation::Sharpness:
      return linear(0, ranges.factor, bin);
    case Operation::Posterize:
      return bits_left(ranges.lost_bits, bin);
    case Operation::Solarize:
      return linear(1, 0, bin);
    case Operation::Identity:
    case Operation::AutoContrast:
    case Operation::Equalize:
      return 0;
  }
  return 0;
}

bool is_signed(Operation operation) { return operation >= Operation::ShearX && operation <= Operation::Sharpness; }

void RandAugment::apply(const UInt8Image& image, Random& random, AugmentScratch& scratch) const {
  for (int i = 0; i < operations_; ++i) {
    apply_at(AugmentPolicy::RandAugment, random_operation(random), magnitude_, image, random, scratch);
  }
}

void TrivialAugmentWide::apply(const UInt8Image& image, Random& random, AugmentScratch& scratch) const {
  const Operation operation = random_operation(random);
  const auto bin = static_cast<int>(random.below(kMagnitudeBins));
  apply_at(AugmentPolicy::TrivialAugmentWide, operation, bin, image, random, scratch);
}

}  // namespace rollcall::data
