#include "trainer/data/augment/colour_jitter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "trainer/data/augment/colour.h"
#include "trainer/data/augment/tone_curve.h"

namespace rollcall::data {
namespace {

enum class Step { Brightness, Contrast, Saturation, Hue };

std::array<Step, 4> random_order(Random& random) {
  std::array<Step, 4> order{Step::Brightness, Step::Contrast, Step::Saturation, Step::Hue};
  for (std::uint32_t left = 4; left > 1; --left) {  // Fisher and Yates
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

/// A factor around 1. Drawn even where it is not used, so that switching one operation on leaves the others alone.
double random_factor(double strength, Random& random) {
  return random.uniform(std::max(0.0, 1 - strength), 1 + strength);
}

}  // namespace

void ColourJitter::apply(const Levels& levels, Random& random) const {
  const std::array<Step, 4> order = random_order(random);
  const double brightness = random_factor(options_.brightness, random);
  const double contrast = random_factor(options_.contrast, random);
  const double saturation = random_factor(options_.saturation, random);
  const double turns = random.uniform(-options_.hue, options_.hue);
  for (const Step step : order) {
    if (step == Step::Brightness && options_.brightness > 0) {
      ToneCurve::brightness(brightness).apply(levels);
    } else if (step == Step::Contrast && options_.contrast > 0) {
      ToneCurve::contrast(levels, contrast).apply(levels);
    } else if (step == Step::Saturation && options_.saturation > 0) {
      adjust_saturation(levels, saturation);
    } else if (step == Step::Hue && options_.hue > 0) {
      adjust_hue(levels, turns);
    }
  }
}

}  // namespace rollcall::data
