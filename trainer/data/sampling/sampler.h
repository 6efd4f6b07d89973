#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/data/sampling/random.h"

namespace rollcall::data {

/// A pseudo-random permutation of 0 ... n-1 as a function of (seed, epoch), the same on every rank. Any position takes
/// O(1), and nothing is stored.
///
/// An eight-round balanced Feistel network (Luby, Rackoff, SIAM J. Comput. 1988) on the smallest even number of bits
/// that holds n, with cycle walking (Black, Rogaway, CT-RSA 2002) back into the range: at most 4 passes on average.
/// Thread-safe.
class Permutation {
 public:
  /// size >= 0. The purpose separates the split of a dataset from the orders of its epochs.
  Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch, Purpose purpose = Purpose::Permutation);

  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Returns the element at a position, both in 0 ... size-1.
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  [[nodiscard]] std::uint64_t feistel(std::uint64_t number) const;

  std::int64_t size_;
  unsigned half_bits_ = 1;
  std::array<std::uint64_t, 8> round_keys_{};
};

/// The samples of each part of a dataset. Together the parts hold each sample exactly once.
struct Split {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> valid;
  std::vector<std::int64_t> test;  ///< held out: used by neither training nor validation
};

/// Splits 85 / 10 / 5 per cent by a keyed permutation of the seed, the same on every rank. As in torch's random_split,
/// sizes are rounded down and the remaining samples go to train, valid, test in turn.
[[nodiscard]] Split split_85_10_5(std::int64_t size, std::uint64_t seed);

struct EpochOrderOptions {
  std::int64_t size = 0;  ///< number of samples
  std::uint64_t seed = 0;
  bool shuffle = false;  ///< if false, the order is 0, 1, 2 ...
  std::int64_t window =
      0;  ///< with shuffle: number of consecutive samples that are read at about the same time; 0: no windows
};

/// The order of an epoch's samples as a function of (seed, epoch), the same on every rank. Any position takes O(1).
///
/// With windows, the dataset is cut into runs of that many samples. 64 windows, drawn at random, are mixed and read,
/// then the next 64: a parallel file system sees a few sequential streams instead of random reads, and data read ahead
/// is used soon. A batch then holds samples of at most 64 windows (128 across a border), so a file sorted by class
/// needs windows much smaller than a class. The samples after the last whole window are read together, at a random
/// point of the epoch.
class EpochOrder {
 public:
  static constexpr std::int64_t kMixedWindows = 64;

  EpochOrder(const EpochOrderOptions& options, std::uint64_t epoch);

  /// Returns the sample at a position, both in 0 ... size-1. Not thread-safe: caches the permutation of the latest
  /// group.
  [[nodiscard]] std::int64_t operator()(std::int64_t position);

 private:
  [[nodiscard]] std::int64_t windowed(std::int64_t position);

  EpochOrderOptions options_;
  std::uint64_t epoch_;
  std::int64_t whole_windows_ = 0;
  std::int64_t rest_ = 0;           // number of samples after the last whole window
  std::int64_t rest_position_ = 0;  // their position in the epoch
  Permutation order_;               // order of samples, or of windows
  Permutation rest_order_;
  Permutation group_order_;  // order of the samples of group_
  std::int64_t group_ = -1;
};

struct SamplerOptions {
  std::int64_t dataset_size = 0;
  std::int64_t batch_size = 1;    ///< number of samples of one rank in one batch
  std::int64_t accumulation = 1;  ///< number of batches of one rank in one optimizer step
  std::int64_t world_size = 1;
  std::int64_t rank = 0;
  /// Number of consecutive ranks from `rank` on whose batches are read, one after the other for each step. Must be 1
  /// without drop_last or pad.
  std::int64_t ranks = 1;
  std::uint64_t seed = 0;
  bool shuffle = false;
  std::int64_t window = 0;  ///< with shuffle: see EpochOrder
  /// The samples of each class, none of which is empty. If set, each position of the epoch has a random sample of a
  /// random class, as with torch's WeightedRandomSampler and weights of 1 / the class's samples.
  std::shared_ptr<const std::vector<std::vector<std::int64_t>>> balanced{};
  bool drop_last = false;  ///< leave out samples that do not fill all batches of a step: all ranks get the same number
                           ///< of full batches
  std::int64_t repetitions = 1;  ///< consecutive positions that have the same sample
  bool pad = false;  ///< fill the batches of the last step from the epoch's beginning, marked as not counted
};

/// One sample of a batch.
struct SampleRef {
  std::int64_t index = 0;
  bool counted = true;  ///< false for padding, which metrics leave out so that every sample counts once
  /// How many positions before this one have the same sample. The position, where an epoch draws samples again and
  /// again.
  std::int64_t repetition = 0;

  friend bool operator==(const SampleRef&, const SampleRef&) = default;
};

/// Returns the epoch of the random numbers with which a sample of `epoch` is augmented: another one for each
/// repetition and each draw.
[[nodiscard]] constexpr std::uint64_t augmentation_epoch(std::uint64_t epoch, const SampleRef& sample) {
  return epoch + (static_cast<std::uint64_t>(sample.repetition) << 24);
}

/// Determines which samples a rank reads in each batch of an epoch. A plain value: copies are independent.
///
/// All ranks share one order of the epoch (EpochOrder): a keyed permutation of (seed, epoch), or 0, 1, 2 ... Batch b
/// covers the world_size * batch_size positions from start_position + b * world_size * batch_size on; rank r takes the
/// r-th batch_size of them. So "all samples before position p are done" describes the state of an epoch completely: it
/// can be continued from any p, even with another world or batch size, without losing or repeating a sample.
///
/// Compared with torch's DistributedSampler: there set_epoch() is easily forgotten, and every epoch then has the order
/// of the first one. Here the epoch is part of the key in the same way, and so is the position within it, which
/// DistributedSampler does not have. A batch's samples over all ranks are the same set as there (where rank r takes
/// every W-th position). Padding repeats the epoch's beginning in both; there it is counted as data.
///
/// With repetitions, as in torchvision's RASampler, a position and the ones after it have the same sample, and rank r
/// takes every world_size-th position of a batch, so that they are on different ranks. An epoch still has dataset_size
/// positions; which samples it leaves out changes from epoch to epoch.
///
/// Without drop_last and pad the last global batch is short, and higher ranks may get a short or empty batch.
class Sampler {
 public:
  /// Requires sizes >= 1 (dataset_size >= 0, ranks >= 0), 0 <= rank < world_size, and not both drop_last and pad.
  /// Starts at epoch 0, position 0.
  explicit Sampler(const SamplerOptions& options);

  /// Sets the epoch and the position of batch 0: 0, or where an interrupted epoch continues.
  void set_epoch(std::uint64_t epoch, std::int64_t start_position = 0);

  /// Returns the number of optimizer steps from start_position to the epoch's end; it is equal on all ranks.
  [[nodiscard]] std::int64_t steps() const;
  /// Returns the number of batches until then: steps() * accumulation * ranks. Without drop_last and pad the last step
  /// may have fewer.
  [[nodiscard]] std::int64_t batches() const;
  /// Returns this rank's samples of a batch, 0 <= batch < batches().
  [[nodiscard]] std::vector<SampleRef> batch(std::int64_t batch) const;
  /// Returns the epoch's position of this rank's first sample of a batch; no other batch of the epoch has it.
  [[nodiscard]] std::int64_t first_position(std::int64_t batch) const;
  /// Returns the epoch's position of this rank's sample `i` of a batch.
  [[nodiscard]] std::int64_t position(std::int64_t batch, std::int64_t i) const {
    return first_position(batch) + i * stride();
  }
  /// Returns how many positions of the epoch are done, over all ranks, after `steps` steps; a resume starts there.
  [[nodiscard]] std::int64_t position_after(std::int64_t steps) const;

  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] const SamplerOptions& options() const { return options_; }

 private:
  /// Number of positions from one sample of a rank's batch to the next.
  [[nodiscard]] std::int64_t stride() const { return options_.repetitions > 1 ? options_.world_size : 1; }
  /// Number of positions that one batch and one step cover, over all ranks.
  [[nodiscard]] std::int64_t positions_per_batch() const { return options_.world_size * options_.batch_size; }
  [[nodiscard]] std::int64_t positions_per_step() const { return positions_per_batch() * options_.accumulation; }
  [[nodiscard]] std::int64_t balanced_sample(std::int64_t position) const;

  SamplerOptions options_;
  std::uint64_t epoch_ = 0;
  std::int64_t start_position_ = 0;
};

}  // namespace rollcall::data
