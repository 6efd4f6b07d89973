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

struct SamplerOptions {
  std::int64_t dataset_size = 0;
  std::int64_t batch_size = 1;    ///< samples of one rank in one batch
  std::int64_t accumulation = 1;  ///< batches of one rank that make up one step of the optimizer
  std::int64_t world_size = 1;
  std::int64_t rank = 0;
  /// Consecutive ranks from `rank` on whose batches are read, each one's of a step after the other's. Other than 1 only
  /// with drop_last or pad.
  std::int64_t ranks = 1;
  std::uint64_t seed = 0;
  bool shuffle = false;
  std::int64_t window = 0;  ///< with shuffle: see EpochOrder
  bool drop_last = false;  ///< leave out what does not fill all batches of a step: all ranks get equally many full ones
  bool pad = false;        ///< fill the last step's batches from the epoch's beginning, marked as not counted
};

/// One sample of a batch.
struct SampleRef {
  std::int64_t index = 0;
  bool counted = true;  ///< false: padding, which metrics leave out so that every sample counts once

  friend bool operator==(const SampleRef&, const SampleRef&) = default;
};

/// Says which samples a rank reads in each batch of an epoch. A plain value: copies are independent.
///
/// The epoch has one order for all ranks (EpochOrder): a keyed permutation of (seed, epoch), or 0, 1, 2 ... Batch b
/// covers the world_size * batch_size positions from start_position + b * world_size * batch_size on; rank r takes the
/// r-th batch_size of them. So "all samples before position p are done" describes the state of an epoch completely: it
/// can go on from any p, with another world or batch size too, and loses or repeats no sample.
///
/// Against torch's DistributedSampler: there set_epoch() is easily forgotten, and every epoch then has the first one's
/// order; here the epoch is part of the key in the same way, and the position within it as well, which
/// DistributedSampler does not know. A batch's samples over all ranks are the same set as there (there rank r takes
/// every W-th position). Padding repeats the epoch's beginning in both; there it is counted as if it were data.
///
/// Without drop_last and pad the last global batch is short, and higher ranks may get a short or empty batch.
class Sampler {
 public:
  /// Sizes >= 1 (dataset_size >= 0, ranks >= 0), 0 <= rank < world_size; not both drop_last and pad. Starts at epoch 0,
  /// position 0.
  explicit Sampler(const SamplerOptions& options);

  /// Chooses the epoch's order and the first position of batch 0: 0, or where an interrupted epoch goes on.
  void set_epoch(std::uint64_t epoch, std::int64_t start_position = 0);

  /// Steps of the optimizer from start_position to the epoch's end; equal on all ranks.
  [[nodiscard]] std::int64_t steps() const;
  /// Batches until then: steps() * accumulation * ranks; without drop_last and pad the last step may lack some.
  [[nodiscard]] std::int64_t batches() const;
  /// This rank's samples of a batch, 0 <= batch < batches().
  [[nodiscard]] std::vector<SampleRef> batch(std::int64_t batch) const;
  /// Position in the epoch of this rank's first sample of a batch; no other batch of the epoch has it.
  [[nodiscard]] std::int64_t first_position(std::int64_t batch) const;
  /// How many positions of the epoch are done, over all ranks, after `steps` steps: what to resume from.
  [[nodiscard]] std::int64_t position_after(std::int64_t steps) const;

  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] const SamplerOptions& options() const { return options_; }

 private:
  /// Positions that one batch and one step cover, over all ranks.
  [[nodiscard]] std::int64_t of_batch() const { return options_.world_size * options_.batch_size; }
  [[nodiscard]] std::int64_t of_step() const { return of_batch() * options_.accumulation; }

  SamplerOptions options_;
  std::uint64_t epoch_ = 0;
  std::int64_t start_position_ = 0;
};

}  // namespace rollcall::data
