#include "trainer/data/loader/loader.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "trainer/data/loader/pending_batch.h"

namespace rollcall::data {

/// One epoch's reading: the window of batches being read, and the workers that read them.
class Loader::Epoch {
 public:
  Epoch(const Dataset& dataset, const LoaderOptions& options, const Sampler& sampler, std::uint64_t epoch,
        std::int64_t first_step);

  /// The next step's batch with all samples read; null after the last.
  std::unique_ptr<PendingBatch> take();

 private:
  struct Entry {
    std::unique_ptr<PendingBatch> batch;
    std::size_t claimed = 0;  // samples that a worker has taken up
    std::size_t read = 0;
  };

  [[nodiscard]] std::unique_ptr<PendingBatch> open_next();
  void refill();
  [[nodiscard]] Entry* unclaimed();
  void work(const std::stop_token& stop);

  const Dataset& dataset_;
  const int image_size_;
  const Sampler sampler_;
  const std::uint64_t epoch_;
  const std::size_t window_size_;  // 0: no workers
  Workspace workspace_;            // consumer's, where there are no workers
  std::int64_t next_step_;         // the first step that is not opened; consumer's

  std::mutex mutex_;  // guards what follows, not the batches' contents
  std::condition_variable_any work_arrived_;
  std::condition_variable batch_read_;
  std::deque<Entry> window_;  // in the order of steps; references stay valid, it changes at its ends only

  std::vector<std::jthread> workers_;  // last: they stop and join before the rest goes
};

Loader::Epoch::Epoch(const Dataset& dataset, const LoaderOptions& options, const Sampler& sampler, std::uint64_t epoch,
                     std::int64_t first_step)
    : dataset_(dataset),
      image_size_(options.image_size),
      sampler_(sampler),
      epoch_(epoch),
      window_size_(static_cast<std::size_t>(options.workers) * static_cast<std::size_t>(options.prefetch)),
      next_step_(first_step) {
  refill();
  for (int i = 0; i < options.workers; ++i) {
    workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

std::unique_ptr<PendingBatch> Loader::Epoch::open_next() {
  if (next_step_ >= sampler_.steps()) {
    return nullptr;
  }
  const std::int64_t step = next_step_++;
  return std::make_unique<PendingBatch>(step, sampler_.batch(step), image_size_);
}

/// Opens batches until the window is full or the epoch's last step is in it. Tensors are made here, in the consumer's
/// thread, and outside the lock.
void Loader::Epoch::refill() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (window_.size() >= window_size_) {
        return;
      }
    }
    std::unique_ptr<PendingBatch> batch = open_next();
    if (!batch) {
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      window_.push_back({std::move(batch)});
    }
    work_arrived_.notify_all();
  }
}

Loader::Epoch::Entry* Loader::Epoch::unclaimed() {
  const auto entry = std::find_if(window_.begin(), window_.end(),
                                  [](const Entry& candidate) { return candidate.claimed < candidate.batch->size(); });
  return entry == window_.end() ? nullptr : &*entry;
}

void Loader::Epoch::work(const std::stop_token& stop) {
  Workspace workspace;
  std::unique_lock lock(mutex_);
  while (work_arrived_.wait(lock, stop, [this] { return unclaimed() != nullptr; }) && !stop.stop_requested()) {
    Entry& entry = *unclaimed();
    const std::size_t sample = entry.claimed++;
    lock.unlock();
    entry.batch->read(sample, dataset_, epoch_, workspace);
    lock.lock();
    if (++entry.read == entry.batch->size()) {
      batch_read_.notify_one();
    }
  }
}

std::unique_ptr<PendingBatch> Loader::Epoch::take() {
  if (window_size_ == 0) {
    std::unique_ptr<PendingBatch> batch = open_next();
    for (std::size_t i = 0; batch && i < batch->size(); ++i) {
      batch->read(i, dataset_, epoch_, workspace_);
    }
    return batch;
  }
  std::unique_ptr<PendingBatch> batch;
  {
    std::unique_lock lock(mutex_);
    if (window_.empty()) {
      return nullptr;
    }
    batch_read_.wait(lock, [this] { return window_.front().read == window_.front().batch->size(); });
    batch = std::move(window_.front().batch);
    window_.pop_front();
  }
  refill();
  return batch;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  assert(options.workers >= 0 && options.prefetch >= 1 && options.image_size >= 1);
}

Loader::~Loader() = default;

void Loader::start(const Sampler& sampler, std::uint64_t epoch, std::int64_t first_step) {
  assert(sampler.options().batch_size <= options_.batch_size);
  epoch_.reset();
  epoch_ = std::make_unique<Epoch>(*dataset_, options_, sampler, epoch, first_step);
}

Result<std::optional<Batch>> Loader::next() {
  std::unique_ptr<PendingBatch> pending = epoch_ ? epoch_->take() : nullptr;
  if (!pending) {
    epoch_.reset();
    return std::optional<Batch>();
  }
  if (options_.bad_samples == BadSamples::Fail) {
    if (std::optional<Error> error = pending->first_error()) {
      epoch_.reset();
      return *std::move(error);
    }
  }
  Result<Batch> batch = pending->finish();
  if (!batch) {
    epoch_.reset();
    return batch.error();
  }
  return std::optional<Batch>(*std::move(batch));
}

}  // namespace rollcall::data
