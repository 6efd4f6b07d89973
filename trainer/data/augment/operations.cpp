#include "trainer/data/augment/operations.h"

#include "trainer/data/augment/affine.h"
#include "trainer/data/augment/colour.h"
#include "trainer/data/augment/sharpness.h"
#include "trainer/data/augment/tone_curve.h"

namespace rollcall::data {

void apply(Operation operation, double magnitude, const Levels& levels, AugmentScratch& scratch) {
  switch (operation) {
    case Operation::Identity:
      return;
    case Operation::ShearX:
      return shear(levels, magnitude, 0, scratch);
    case Operation::ShearY:
      return shear(levels, 0, magnitude, scratch);
    case Operation::TranslateX:
      return translate(levels, static_cast<int>(magnitude), 0, scratch);
    case Operation::TranslateY:
      return translate(levels, 0, static_cast<int>(magnitude), scratch);
    case Operation::Rotate:
      return rotate(levels, magnitude, scratch);
    case Operation::Brightness:
      return ToneCurve::brightness(1 + magnitude).apply(levels);
    case Operation::Colour:
      return adjust_saturation(levels, 1 + magnitude);
    case Operation::Contrast:
      return ToneCurve::contrast(levels, 1 + magnitude).apply(levels);
    case Operation::Sharpness:
      return adjust_sharpness(levels, 1 + magnitude, scratch);
    case Operation::Posterize:
      return ToneCurve::posterize(static_cast<int>(magnitude)).apply(levels);
    case Operation::Solarize:
      return ToneCurve::solarize(255 * magnitude).apply(levels);
    case Operation::AutoContrast:
      return ToneCurve::autocontrast(levels).apply(levels);
    case Operation::Equalize:
      return ToneCurve::equalize(levels).apply(levels);
  }
}

}  // namespace rollcall::data
