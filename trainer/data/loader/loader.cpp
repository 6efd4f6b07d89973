#include "trainer/data/loader/loader.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <system_error>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/data/loader/batch_slot.h"

namespace rollcall::data {
namespace {

constexpr int kNice = 10;  // added to the nice value of the process

/// Binds the calling thread to these CPUs (none: no change). Failure is harmless.
void run_on(const std::vector<std::uint32_t>& cpus) {
  if (cpus.empty()) {
    return;
  }
  const std::uint32_t count = *std::ranges::max_element(cpus) + 1;
  const std::size_t bytes = CPU_ALLOC_SIZE(count);
  std::vector<cpu_set_t> set(bytes / sizeof(cpu_set_t) + 1);
  CPU_ZERO_S(bytes, set.data());
  for (const std::uint32_t cpu : cpus) {
    CPU_SET_S(cpu, bytes, set.data());
  }
  pthread_setaffinity_np(pthread_self(), bytes, set.data());
}

/// Lowers the priority of the calling thread below that of the computing threads. On Linux the nice value belongs to a
/// thread. Failure is harmless.
void become_background_thread() {
  pthread_setname_np(pthread_self(), "rollcall-data");
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), getpriority(PRIO_PROCESS, 0) + kNice);
}

}  // namespace

int ImageSizeSchedule::size(std::uint64_t epoch, int largest) const {
  constexpr double kMultiple = 32;
  const auto now = static_cast<double>(epoch);
  if (smallest == 0 || now >= end) {
    return largest;
  }
  if (now <= begin) {
    return smallest;
  }
  const double size = smallest + (largest - smallest) * (now - begin) / (end - begin);
  return std::clamp(static_cast<int>(std::nearbyint(size / kMultiple) * kMultiple), smallest, largest);
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options), ahead_(options.batches_ahead()), workspace_(options.decode) {
  assert(options.workers >= 0 && options.prefetch >= 1 && options.image_size >= 1 && options.batch_size >= 1);
  for (int i = 0; i < options.batches_in_memory(); ++i) {
    ring_.push_back(std::make_unique<BatchSlot>(options_, dataset_->label_sets()));
  }
}

Loader::~Loader() {
  stopping_ = true;
  open_batches_.fetch_add(1);  // so that sleeping workers see a change
  open_batches_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

Result<void> Loader::start_workers() {
  try {
    while (workers_.size() < static_cast<std::size_t>(options_.workers)) {
      workers_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& error) {
    return fail("--train-num-workers", std::to_string(options_.workers),
                "only " + std::to_string(workers_.size()) + " of these threads could be started: " + error.what(),
                "lowering it, or raising the limit of processes (ulimit -u)", ErrorKind::Unavailable);
  }
  return {};
}

void Loader::stop() { drop_rest(); }

Result<void> Loader::start(const Sampler& sampler, std::int64_t first_step) {
  assert(sampler.options().batch_size <= options_.batch_size);
  drop_rest();
  RETURN_IF_ERROR(start_workers());
  sampler_ = sampler;
  next_step_ = first_step;
  open_batches();
  return {};
}

/// Opens batches as far ahead as allowed. Tensors are allocated here, in the caller's thread, unless they are pinned.
void Loader::open_batches() {
  std::int64_t open = open_batches_.load(std::memory_order_relaxed);
  while (open < next_batch_ + ahead_ && next_step_ < sampler_->batches()) {
    slot_of(open).open(*sampler_, next_step_);
    ++next_step_;
    open_batches_.store(++open, std::memory_order_release);
    open_batches_.notify_all();
  }
  if (next_step_ >= sampler_->batches()) {
    release_idle();
  }
}

/// Lets go of page-locked memory that no further batch of the epoch needs: LibTorch keeps it for the next loader.
void Loader::release_idle() {
  if (options_.pinned) {
    const std::int64_t end = next_batch_ + static_cast<std::int64_t>(ring_.size());
    for (std::int64_t batch = open_batches_.load(std::memory_order_relaxed); batch < end; ++batch) {
      slot_of(batch).release();
    }
  }
}

/// Page-locking memory takes long: while another worker does it for a batch, this one does it for the next ones.
void Loader::offer_memory(std::int64_t batch) {
  const std::int64_t open = open_batches_.load(std::memory_order_acquire);
  for (; batch < open && !slot_of(batch).has_memory(); ++batch) {
    slot_of(batch).offer_memory();
  }
}

/// Ends an epoch early: the workers pass over open batches without reading them.
void Loader::drop_rest() {
  const std::int64_t open = open_batches_.load(std::memory_order_relaxed);
  for (std::int64_t batch = next_batch_; batch < open; ++batch) {
    slot_of(batch).cancel();
  }
  for (; next_batch_ < open; ++next_batch_) {
    if (options_.workers == 0) {
      read_here(slot_of(next_batch_));
    }
    slot_of(next_batch_).wait();
  }
  release_idle();
  sampler_.reset();
}

bool Loader::wait_until_open(std::int64_t batch) const {
  for (;;) {
    const std::int64_t open = open_batches_.load(std::memory_order_acquire);
    if (stopping_) {
      return false;
    }
    if (batch < open) {
      return true;
    }
    open_batches_.wait(open, std::memory_order_acquire);
  }
}

void Loader::work() {
  become_background_thread();
  run_on(options_.worker_cpus);
  Workspace workspace(options_.decode);
  for (;;) {
    const std::int64_t sample = next_sample_.fetch_add(1, std::memory_order_relaxed);
    const std::int64_t batch = sample / options_.batch_size;
    if (!wait_until_open(batch)) {
      return;
    }
    offer_memory(batch);
    slot_of(batch).read(sample % options_.batch_size, *dataset_, workspace);
  }
}

void Loader::read_here(BatchSlot& slot) {
  for (std::int64_t i = 0; i < options_.batch_size; ++i) {
    slot.read(i, *dataset_, workspace_);
  }
}

Result<std::optional<Batch>> Loader::next() {
  if (!sampler_ || next_batch_ == open_batches_.load(std::memory_order_relaxed)) {
    sampler_.reset();
    return std::optional<Batch>();
  }
  BatchSlot& slot = slot_of(next_batch_);
  if (options_.workers == 0) {
    read_here(slot);
  }
  slot.wait();
  ++next_batch_;
  Result<Batch> batch = slot.take();
  if (!batch) {
    drop_rest();
    return batch.error();
  }
  open_batches();
  return std::optional<Batch>(*std::move(batch));
}

}  // namespace rollcall::data
