#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/datasets/dataset.h"
#include "trainer/data/loader/loader.h"
#include "trainer/data/sampling/sampler.h"
#include "trainer/data/transforms/batch_mix.h"

namespace rollcall::data {

/// A slot of the loader's ring: the tensors of one batch, reused for later batches, and the state of reading into them.
///
/// The consumer opens the slot, any threads read its samples, each sample once, and the thread that reads the last one
/// completes the batch. Then the consumer takes it. There is no lock: samples use disjoint memory, and a countdown
/// hands the slot over. Only page-locked memory, which takes long to make, is made by the threads that read, under one.
class BatchSlot {
 public:
  /// `sets` outlives the slot; null: each sample has one class.
  explicit BatchSlot(const LoaderOptions& options, const LabelSets* sets = nullptr);

  /// Called by the consumer after the previous batch was taken or cancelled: starts a batch for a step of the sampler.
  void open(const Sampler& sampler, std::int64_t step);
  /// Called by any thread: returns whether an open slot has its memory.
  [[nodiscard]] bool has_memory() const { return has_memory_.load(std::memory_order_acquire); }
  /// Called by any thread: makes the memory of an open slot, unless another thread is at it.
  void offer_memory() noexcept;
  /// Called by any thread: reads sample 0 <= i < batch_size, which may be after the last sample of a short batch.
  void read(std::int64_t i, const Dataset& dataset, Workspace& workspace) noexcept;
  /// Called by the consumer: samples that are not read yet are skipped.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  /// Called by the consumer: waits until all samples were read or skipped.
  void wait() const;
  /// Called by the consumer after wait(): returns the batch. Errors: see Loader::next(). Throws what LibTorch threw
  /// when the memory was made.
  [[nodiscard]] Result<Batch> take();
  /// Called by the consumer while the slot is not open: lets go of its memory.
  void release();

 private:
  void read_sample(std::size_t i, const Dataset& dataset, Workspace& workspace) noexcept;
  void complete() noexcept;
  [[nodiscard]] bool replace_bad_samples();
  void mix();
  void write_rows();
  void make_tensors();
  void make_memory() noexcept;
  void make_memory_under_lock() noexcept;
  void set_image_size();
  /// The bytes of one sample.
  [[nodiscard]] std::size_t place_bytes() const {
    const auto side = static_cast<std::size_t>(image_size_);
    return side * side * 3 * bytes_of(options_.pixel_type);
  }
  [[nodiscard]] std::byte* place(std::size_t i) const { return pixels_ + i * place_bytes(); }
  [[nodiscard]] OutputPixels output(std::size_t i) const {
    return {place(i), options_.pixel_type, image_size_, image_size_};
  }
  [[nodiscard]] std::optional<std::size_t> next_good(std::size_t i) const;

  const LoaderOptions options_;
  const LabelSets* const sets_;

  at::Tensor images_;  // memory for batch_size samples; a batch is a prefix of it
  at::Tensor labels_;
  at::Tensor second_labels_;               // with mixing; else undefined
  std::vector<std::int64_t> set_numbers_;  // the samples' labels, then their partners', that become rows of labels_
  at::Tensor counted_;
  std::mutex making_;  // guards all of this against threads that make it
  bool is_open_ = false;
  std::exception_ptr not_made_;  // why there is no memory
  std::atomic<bool> has_memory_ = false;
  std::byte* pixels_ = nullptr;  // the tensors' memory, so that worker threads touch no tensor
  std::int64_t* label_values_ = nullptr;
  std::int64_t* second_label_values_ = nullptr;
  bool* counted_values_ = nullptr;

  int image_size_ = 0;  // of this epoch
  std::int64_t step_ = 0;
  std::uint64_t epoch_ = 0;
  std::int64_t position_ = 0;  // position of the first sample in the epoch
  std::vector<SampleRef> samples_;
  std::vector<std::optional<Error>> errors_;
  std::optional<Error> failure_;  // set if no batch could be made
  BatchMix mix_;
  std::vector<OutputPixels> mixed_places_;
  std::vector<std::byte> last_place_;         // memory that mix_batch() reuses
  std::atomic<std::int64_t> fetch_time_ = 0;  // nanoseconds
  std::atomic<std::int64_t> decode_time_ = 0;
  std::atomic<std::int64_t> augment_time_ = 0;
  std::atomic<bool> cancelled_ = false;
  std::atomic<std::int64_t> unread_ = 0;  // samples that are not finished
  std::atomic<bool> ready_ = true;        // whether the batch is complete
};

}  // namespace rollcall::data
