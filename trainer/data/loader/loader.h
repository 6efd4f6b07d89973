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

/// One rank's n samples of one step. It owns its tensors together with the loader, which reuses them only when nobody
/// else holds them.
struct Batch {
  at::Tensor images;         ///< float32 or bfloat16 [n, 3, image_size, image_size], memory format channels_last
  at::Tensor labels;         ///< int64 [n]; of images with several classes float32 [n, LabelSets::width()] of 0 and 1
  at::Tensor second_labels;  ///< like labels: those that have the rest of the weight; undefined without mixing
  double label_weight = 1;   ///< weight of `labels`; `second_labels` has 1 - label_weight
  at::Tensor label_weights;  ///< float32 [2]: both weights, if a device reads them; else undefined
  at::Tensor kept;           ///< see ResNetImpl::forward(); undefined: the model drops nothing. Set by the step
  at::Tensor counted;        ///< bool [n]; false for padding and for replacements of bad samples
  std::int64_t step = 0;
  std::vector<Error> bad;  ///< one for each unreadable sample that is not padding; BadData: it is damaged
  StageTimes times;        ///< time of reading the batch, summed over all workers
};

/// Returns the type of a batch's images.
[[nodiscard]] at::ScalarType scalar_type(PixelType type);

class BatchSlot;

/// Reads a sampler's batches with worker threads, ahead of the training loop and in the sampler's order.
///
/// The batches have the same bits with any number of workers. They are read into a ring of
/// LoaderOptions::batches_in_memory() sets of tensors that is allocated once: a set is reused after the caller has
/// dropped its batch, and replaced if tensors of it are still held. If they are pinned, the workers make each set when
/// it is first needed, and it is let go of at the end of an epoch, so that another loader has it. Workers draw single
/// samples from one counter, so that all of them read even the first batch and none waits for a slow one; in a steady
/// state they neither allocate nor lock. They sleep while the ring is full, and have a lower scheduling priority than
/// the threads that compute.
///
/// With Skip, a bad sample is listed in Batch::bad and replaced by the next good sample of the batch (cyclically) with
/// counted = false: shapes are unchanged, and a loss averaged over n counts that sample twice. A batch without a good
/// sample is an Error; with Fail any bad sample is.
///
/// Workers call nothing but Dataset::read. The loader itself belongs to one thread; its destructor and a new start()
/// wait only for the sample that each worker is reading.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Starts reading the sampler's steps from `first_step` on. The sampler, with its epoch set, is copied. The rest of
  /// an earlier epoch is dropped. Errors: Unavailable: no more threads can be started.
  [[nodiscard]] Result<void> start(const Sampler& sampler, std::int64_t first_step = 0);

  /// Drops the rest of the epoch.
  void stop();

  /// Waits for the next batch and returns it; nothing after the last one. After an Error the epoch is over. A batch
  /// without samples (see Sampler) has tensors with n = 0. Errors: with Fail, the first bad sample of the batch; with
  /// Skip, a batch of bad samples only: BadData, or InputOutput if its first sample could not be read; Internal if
  /// reading threw an exception.
  [[nodiscard]] Result<std::optional<Batch>> next();

 private:
  [[nodiscard]] Result<void> start_workers();
  void work();
  [[nodiscard]] bool wait_until_open(std::int64_t batch) const;
  void open_batches();
  void drop_rest();
  void release_idle();
  void offer_memory(std::int64_t batch);
  void read_here(BatchSlot& slot);
  [[nodiscard]] BatchSlot& slot_of(std::int64_t batch) {
    return *ring_[static_cast<std::size_t>(batch) % ring_.size()];
  }

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const std::int64_t ahead_;  // maximum number of open batches

  // Batches are numbered through all epochs. A sample's number is its batch's number times batch_size plus its index.
  std::vector<std::unique_ptr<BatchSlot>> ring_;
  std::optional<Sampler> sampler_;  // the sampler of the current epoch
  std::int64_t next_step_ = 0;      // the first step of the epoch whose batch is not open
  std::int64_t next_batch_ = 0;     // the batch that next() returns
  Workspace workspace_;             // of the caller's thread, if there are no workers

  std::atomic<std::int64_t> open_batches_ = 0;  // batches before this one are open; only the caller's thread adds to it
  std::atomic<std::int64_t> next_sample_ = 0;   // the sample that the next idle worker reads
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace rollcall::data
