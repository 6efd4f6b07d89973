#pragma once

#include <cstdint>
#include <vector>

namespace rollcall::data {

struct SamplerOptions {
  std::int64_t dataset_size = 0;
  std::int64_t batch_size = 1;    ///< samples of one rank in one batch
  std::int64_t accumulation = 1;  ///< batches of one rank that make up one step of the optimizer
  std::int64_t world_size = 1;
  std::int64_t rank = 0;
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
  /// Sizes >= 1 (dataset_size >= 0), 0 <= rank < world_size; not both drop_last and pad. Starts at epoch 0, position 0.
  explicit Sampler(const SamplerOptions& options);

  /// Chooses the epoch's order and the first position of batch 0: 0, or where an interrupted epoch goes on.
  void set_epoch(std::uint64_t epoch, std::int64_t start_position = 0);

  /// Steps of the optimizer from start_position to the epoch's end; equal on all ranks.
  [[nodiscard]] std::int64_t steps() const;
  /// Batches until then: steps() * accumulation; without drop_last and pad the last step may lack some.
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
