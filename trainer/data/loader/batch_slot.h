#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/datasets/dataset.h"
#include "trainer/data/loader/loader.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/data/transforms/batch_mix.h"

namespace rollcall::data {

/// A place of the loader's ring: the tensors of one batch, kept from one to the next, and what is being read into them.
///
/// The consumer opens it, any threads read its places, each place once; whoever reads the last one completes the batch;
/// then the consumer takes it. Nothing here locks: places are disjoint, and a countdown hands over from one to the
/// other.
class BatchSlot {
 public:
  explicit BatchSlot(const LoaderOptions& options);

  /// Consumer, when the batch before was taken or cancelled: a step of the sampler.
  void open(const Sampler& sampler, std::int64_t step);
  /// Any thread: reads place 0 <= i < batch_size, which may lie behind the last sample of a short batch.
  void read(std::int64_t i, const Dataset& dataset, Workspace& workspace) noexcept;
  /// Consumer: what is not read yet need not be.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  /// Consumer: until all places were read or skipped.
  void wait() const;
  /// Consumer, after wait(). Errors: see Loader::next().
  [[nodiscard]] Result<Batch> take();

 private:
  void read_sample(std::size_t i, const Dataset& dataset, Workspace& workspace) noexcept;
  void complete() noexcept;
  [[nodiscard]] bool replace_bad_samples();
  void mix();
  void make_tensors();
  [[nodiscard]] std::byte* place(std::size_t i) const { return pixels_ + i * place_bytes_; }
  [[nodiscard]] OutputPixels output(std::size_t i) const {
    return {place(i), options_.pixel_type, options_.image_size, options_.image_size};
  }
  [[nodiscard]] std::optional<std::size_t> next_good(std::size_t i) const;

  const LoaderOptions options_;
  const std::size_t place_bytes_;

  at::Tensor images_;  // of batch_size places; a batch is their beginning
  at::Tensor labels_;
  at::Tensor second_labels_;  // with mixing only
  at::Tensor counted_;
  std::byte* pixels_ = nullptr;  // the tensors' memory, so that worker threads touch no tensor
  std::int64_t* label_values_ = nullptr;
  std::int64_t* second_label_values_ = nullptr;
  bool* counted_values_ = nullptr;

  std::int64_t step_ = 0;
  std::uint64_t epoch_ = 0;
  std::int64_t position_ = 0;  // of the first sample in the epoch
  std::vector<SampleRef> samples_;
  std::vector<std::optional<Error>> errors_;
  std::optional<Error> failure_;  // no batch could be made
  BatchMix mix_;
  std::vector<OutputPixels> mixed_places_;
  std::vector<std::byte> last_place_;         // memory that mix_batch() reuses
  std::atomic<std::int64_t> fetch_time_ = 0;  // nanoseconds
  std::atomic<std::int64_t> decode_time_ = 0;
  std::atomic<std::int64_t> augment_time_ = 0;
  std::atomic<bool> cancelled_ = false;
  std::atomic<std::int64_t> unread_ = 0;  // places that nobody has finished
  std::atomic<bool> ready_ = true;        // completed
};

}  // namespace rollcall::data
