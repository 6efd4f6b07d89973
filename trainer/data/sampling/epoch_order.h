#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/data/sampling/random.h"

namespace rollcall::data {

/// A pseudo-random permutation of 0 ... n-1 as a function of (seed, epoch): any position in O(1), nothing stored, the
/// same on every rank.
///
/// An eight-round balanced Feistel network (Luby, Rackoff, SIAM J. Comput. 1988) on the smallest even number of bits
/// that holds n, with cycle walking (Black, Rogaway, CT-RSA 2002) back into the range: at most 4 passes on average.
/// Thread-safe.
class Permutation {
 public:
  /// size >= 0. The purpose keeps a data set's split apart from the orders of its epochs.
  Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch, Purpose purpose = Purpose::Permutation);

  [[nodiscard]] std::int64_t size() const { return size_; }
  /// The element at a position, both in 0 ... size-1.
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  [[nodiscard]] std::uint64_t feistel(std::uint64_t number) const;

  std::int64_t size_;
  unsigned half_bits_ = 1;
  std::array<std::uint64_t, 8> round_keys_{};
};

/// Which samples of a data set are for what; together each exactly once.
struct Split {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> valid;
  std::vector<std::int64_t> test;  ///< held out: touched by neither training nor validation
};

/// 85 / 10 / 5 per cent, by a keyed permutation of the seed; the same on every rank. As torch's random_split: sizes are
/// rounded down and what is left over goes to train, valid, test in turn.
[[nodiscard]] Split split_85_10_5(std::int64_t size, std::uint64_t seed);

struct EpochOrderOptions {
  std::int64_t size = 0;  ///< samples
  std::uint64_t seed = 0;
  bool shuffle = false;     ///< otherwise 0, 1, 2 ...
  std::int64_t window = 0;  ///< with shuffle: consecutive samples that are read at about the same time; 0: no windows
};

/// The order of an epoch's samples as a function of (seed, epoch): any position in O(1), the same on every rank.
///
/// With windows the data set is cut into runs of that many samples. 64 windows, drawn at random, are mixed and read,
/// then the next 64: a parallel file system sees a few sequential streams instead of random reads, and what is read
/// ahead is used soon. A batch then holds samples of at most 64 windows (128 across a border), so that a file sorted by
/// class wants windows much smaller than a class. What does not fill a window is read together, at a random point of
/// the epoch.
class EpochOrder {
 public:
  static constexpr std::int64_t kMixedWindows = 64;

  EpochOrder(const EpochOrderOptions& options, std::uint64_t epoch);

  /// The sample at a position, both in 0 ... size-1. Not thread-safe: keeps the latest group's permutation.
  [[nodiscard]] std::int64_t operator()(std::int64_t position);

 private:
  [[nodiscard]] std::int64_t windowed(std::int64_t position);

  EpochOrderOptions options_;
  std::uint64_t epoch_;
  std::int64_t whole_windows_ = 0;
  std::int64_t rest_ = 0;           // samples behind the last whole window
  std::int64_t rest_position_ = 0;  // where in the epoch they come
  Permutation order_;               // of samples, or of windows
  Permutation rest_order_;
  Permutation group_order_;  // of the samples of group_
  std::int64_t group_ = -1;
};

}  // namespace rollcall::data
