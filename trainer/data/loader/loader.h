#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/datasets/dataset.h"
#include "trainer/data/loader/options.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/torch.h"

namespace rollcall::data {

/// One rank's samples of one step, n of them. Owns its tensors together with the loader, which writes them anew only
/// when nobody else holds them.
struct Batch {
  at::Tensor images;         ///< float32 or bfloat16 [n, 3, image_size, image_size], memory format channels_last
  at::Tensor labels;         ///< int64 [n]
  at::Tensor second_labels;  ///< int64 [n]: with mixing, the label that has the rest of the weight; else undefined
  double label_weight = 1;   ///< of labels; 1 - label_weight is second_labels'
  at::Tensor label_weights;  ///< float32 [2]: both, where they are to be read on a device; else undefined
  at::Tensor counted;        ///< bool [n]; false for padding and for what stands in for a bad sample
  std::int64_t step = 0;
  std::vector<Error> bad;  ///< for each sample that could not be read, but for padding; BadData: it is damaged
  StageTimes times;        ///< what reading it cost, of all workers together
};

class BatchSlot;

/// Reads a sampler's batches with worker threads, ahead of the training loop and in the sampler's order.
///
/// The batches are the same bits with any number of workers. They are read into a ring of workers * prefetch + 1
/// (and those held) sets of tensors that is made once: a set is written anew when the caller has dropped its batch, and
/// replaced where tensors of it are still held. Workers draw single samples from one counter, so even the first batch
/// is read by all of them and none waits for a slow neighbour; in a steady state they neither allocate nor lock. They
/// sleep while the ring is full, and have a lower scheduling priority than the threads that compute.
///
/// A bad sample under Skip is named in Batch::bad, and the next good sample of the batch (cyclically) takes its place
/// with counted = false: shapes stay, and a loss averaged over n counts that neighbour twice. A batch without a good
/// sample is an Error; so is any bad sample under Fail.
///
/// The workers call nothing but Dataset::read. The loader itself belongs to one thread; its destructor and a new
/// start() wait for the sample that each worker is reading, no longer.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins to read the sampler's steps from `first_step` on. The sampler (its epoch set) is copied. What was left of
  /// an epoch before is dropped. Errors: Unavailable: no more threads can be started.
  [[nodiscard]] Result<void> start(const Sampler& sampler, std::int64_t first_step = 0);

  /// The next batch, waiting for it; nothing after the last. After an Error the epoch is over. A batch of no samples
  /// (see Sampler) has tensors with n = 0. Errors: a bad sample under Fail (the first of the batch); under Skip a
  /// whole batch that is bad: BadData, or InputOutput where its first could not be read; Internal where reading threw.
  [[nodiscard]] Result<std::optional<Batch>> next();

 private:
  [[nodiscard]] Result<void> start_workers();
  void work();
  [[nodiscard]] bool wait_until_open(std::int64_t batch) const;
  void open_batches();
  void drop_rest();
  void read_here(BatchSlot& slot);
  [[nodiscard]] BatchSlot& slot_of(std::int64_t batch) {
    return *ring_[static_cast<std::size_t>(batch) % ring_.size()];
  }

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const std::int64_t ahead_;  // batches that may be open at a time

  // Batches are numbered through all epochs, and a sample's number is its batch's times batch_size plus its place.
  std::vector<std::unique_ptr<BatchSlot>> ring_;
  std::optional<Sampler> sampler_;  // of the epoch that is being read
  std::int64_t next_step_ = 0;      // the epoch's first step that is not open
  std::int64_t next_batch_ = 0;     // the one that next() gives
  Workspace workspace_;             // of the caller's thread, where there are no workers

  std::atomic<std::int64_t> open_batches_ = 0;  // batches below are open; only the caller's thread adds to it
  std::atomic<std::int64_t> next_sample_ = 0;   // the one that the next idle worker reads
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace rollcall::data
