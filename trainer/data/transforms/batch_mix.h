#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data/pixels.h"
#include "trainer/data/sampling/random.h"
#include "trainer/data/transforms/augment_options.h"

namespace rollcall::data {

/// How the samples of one batch are mixed with each other: all in the same way, as in torchvision's MixUp and CutMix.
struct BatchMix {
  enum class Kind {
    None,
    MixUp,   ///< Zhang, Cisse, Dauphin, Lopez-Paz, ICLR 2018: lambda * sample + (1 - lambda) * partner
    CutMix,  ///< Yun, Han, Oh, Chun, Choe, Yoo, ICCV 2019: a box of the sample is the partner's
  };

  Kind kind = Kind::None;
  double lambda = 1;  ///< weight of the sample's own label; the partner's label has the rest
  Box box = {};       ///< CutMix: the box that comes from the partner; may be empty
};

/// Draws lambda from Beta(alpha, alpha); with both alphas above 0, MixUp or CutMix is chosen with probability 1/2. A
/// function of its arguments.
[[nodiscard]] BatchMix choose_mix(const AugmentOptions& options, ImageSize size, std::uint64_t seed,
                                  std::uint64_t epoch, std::uint64_t step);

/// Returns the partner of sample i of n: the sample before it, or the last one for the first.
[[nodiscard]] constexpr std::size_t mix_partner(std::size_t i, std::size_t n) { return (i + n - 1) % n; }

/// Mixes `partner` into `sample`: same sizes and types, no overlap. bfloat16 is mixed in float32 and rounded to nearest
/// even.
void mix_into(const BatchMix& mix, const OutputPixels& sample, const OutputPixels& partner);

/// Mixes each sample of a batch in place with the original content of its partner. `last` holds a copy of the last
/// sample and is only reused memory. Label i becomes lambda * label[i] + (1 - lambda) * label[mix_partner(i, n)].
void mix_batch(const BatchMix& mix, std::span<const OutputPixels> samples, std::vector<std::byte>& last);

/// Draws from Beta(alpha, alpha), alpha > 0, by two Gamma draws (Marsaglia and Tsang, TOMS 2000) that are compared as
/// logarithms, so that small alphas give 0 or 1 and never a NaN.
[[nodiscard]] double symmetric_beta(double alpha, Random& random);

}  // namespace rollcall::data
