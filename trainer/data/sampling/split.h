#pragma once

#include <cstdint>
#include <vector>

namespace rollcall::data {

/// Which samples of a data set are for what; together each exactly once.
struct Split {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> valid;
  std::vector<std::int64_t> test;  ///< held out: touched by neither training nor validation
};

/// 85 / 10 / 5 per cent, by a keyed permutation of the seed; the same on every rank. As torch's random_split: sizes are
/// rounded down and what is left over goes to train, valid, test in turn.
[[nodiscard]] Split split_85_10_5(std::int64_t size, std::uint64_t seed);

}  // namespace rollcall::data
