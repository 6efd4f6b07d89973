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
  double lambda = 1;  ///< the own label's part of the soft label; the partner's label has the rest
  Box box = {};       ///< CutMix: what comes from the partner; may be empty
};

/// lambda from Beta(alpha, alpha); with both alphas above 0, MixUp or CutMix by halves. A function of its arguments.
[[nodiscard]] BatchMix choose_mix(const AugmentOptions& options, ImageSize size, std::uint64_t seed,
                                  std::uint64_t epoch, std::uint64_t step);

/// Whom sample i of n is mixed with: the one before it, the first one with the last.
[[nodiscard]] constexpr std::size_t mix_partner(std::size_t i, std::size_t n) { return (i + n - 1) % n; }

/// sample = what the mix makes of the sample and its partner: same sizes and types, no overlap. bfloat16 is mixed in
/// float32 and rounded to nearest even.
void mix_into(const BatchMix& mix, const OutputPixels& sample, const OutputPixels& partner);

/// Mixes each sample of a batch with its partner as that was before, in place. `last` keeps a copy of the last sample
/// and is only memory that is reused. Label i becomes lambda * label[i] + (1 - lambda) * label[mix_partner(i, n)].
void mix_batch(const BatchMix& mix, std::span<const OutputPixels> samples, std::vector<std::byte>& last);

/// A draw from Beta(alpha, alpha), alpha > 0: from two Gamma draws (Marsaglia and Tsang, TOMS 2000), compared in
/// logarithms, so that small alphas give 0 or 1 and never a NaN.
[[nodiscard]] double symmetric_beta(double alpha, Random& random);

}  // namespace rollcall::data
