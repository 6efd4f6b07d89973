#pragma once

#include <array>
#include <cstdint>

#include "trainer/data/image/resize.h"
#include "trainer/data/sampling/random.h"
#include "trainer/data/transforms/uint8_image.h"

namespace rollcall::data {

/// The operations of timm's RandAugment with increasing severity (inc1), in its order.
enum class TimmOperation {
  AutoContrast,
  Equalize,
  Invert,
  Rotate,
  Posterize,
  Solarize,
  SolarizeAdd,
  Colour,
  Contrast,
  Brightness,
  Sharpness,
  ShearX,
  ShearY,
  TranslateX,
  TranslateY,
};

inline constexpr int kTimmOperations = 15;

/// How operations that move pixels resample the picture, and the colour of pixels from outside.
struct Moving {
  Interpolation interpolation = Interpolation::Bicubic;
  std::array<std::uint8_t, 3> fill{};
};

/// Applies an operation as timm does with Pillow: levels are equal or off by one; sheared and moved pixels are equal.
/// level: 0 ... 10, timm's magnitude after its noise; the sign is used by operations that have one.
void apply(TimmOperation operation, double level, bool negative, const UInt8Image& image, const Moving& moving,
           AugmentScratch& scratch);

/// timm's RandAugment, "rand-mM-nN-mstdX-inc1": N operations, each chosen uniformly from the 15 and done with
/// probability 1/2, at a normal draw around M with deviation X, within 0 ... 10.
class TimmRandAugment {
 public:
  TimmRandAugment(int operations, double magnitude, double deviation, const Moving& moving)
      : operations_(operations), magnitude_(magnitude), deviation_(deviation), moving_(moving) {}

  void apply(const UInt8Image& image, Random& random, AugmentScratch& scratch) const;

 private:
  int operations_;
  double magnitude_;
  double deviation_;
  Moving moving_;
};

/// timm's AugMixAugment, "augmix-m3-w3" (Hendrycks, Mu, Cubuk, Zoph, Gilmer, Lakshminarayanan, ICLR 2020): three chains
/// of one to three operations, of the 15 without Invert and SolarizeAdd, at uniform levels within 0 ... 3. The chains
/// are mixed with weights from Dirichlet(1, 1, 1), and their mixture with the picture with a weight from Beta(1, 1).
class TimmAugMix {
 public:
  explicit TimmAugMix(const Moving& moving) : moving_(moving) {}

  void apply(const UInt8Image& image, Random& random, AugmentScratch& scratch) const;

 private:
  void apply_chain(const UInt8Image& image, Random& random, AugmentScratch& scratch) const;

  Moving moving_;
};

}  // namespace rollcall::data
