#include "trainer/data/augment/policy.h"

#include "trainer/data/augment/magnitude.h"
#include "trainer/data/augment/operations.h"

namespace rollcall::data {
namespace {

Operation random_operation(Random& random) { return static_cast<Operation>(random.below(kOperations)); }

void apply_at(AugmentPolicy policy, Operation operation, int bin, const Levels& levels, Random& random,
              AugmentScratch& scratch) {
  double magnitude = magnitude_of(policy, operation, bin, {levels.width, levels.height});
  if (is_signed(operation) && random.below(2) == 0) {
    magnitude = -magnitude;
  }
  apply(operation, magnitude, levels, scratch);
}

}  // namespace

void RandAugment::apply(const Levels& levels, Random& random, AugmentScratch& scratch) const {
  for (int i = 0; i < operations_; ++i) {
    apply_at(AugmentPolicy::RandAugment, random_operation(random), magnitude_, levels, random, scratch);
  }
}

void TrivialAugmentWide::apply(const Levels& levels, Random& random, AugmentScratch& scratch) const {
  const Operation operation = random_operation(random);
  const auto bin = static_cast<int>(random.below(kMagnitudeBins));
  apply_at(AugmentPolicy::TrivialAugmentWide, operation, bin, levels, random, scratch);
}

}  // namespace rollcall::data
