#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "trainer/distributed/backends/engine/engine.h"
#include "trainer/distributed/backends/ucx/engine/shared_memory.h"
#include "trainer/distributed/backends/ucx/engine/worker.h"

namespace rollcall::process_group::ucx {

/// Runs a group's operations one after the other, with messages or through shared memory. No function waits. One thread
/// at a time, except for use_shared_memory() and has_failed(). These functions call Operation::done.
class Operations {
 public:
  using Clock = std::chrono::steady_clock;

  /// `worker` outlives everything except the destructor.
  Operations(Worker& worker, std::unique_ptr<SharedSegments> shared_memory, std::uint32_t rank,
             std::uint32_t world_size);
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;
  ~Operations();

  /// Sends long collectives through shared memory, from the next operation on.
  void use_shared_memory() { uses_shared_memory_.store(true); }
  /// Returns whether the group has failed; callers of operations may know of it already.
  [[nodiscard]] bool has_failed() const { return failed_.load(std::memory_order_acquire); }

  /// Begins `operation`; ends it at once if the group has failed.
  void begin(Operation operation);
  /// Posts the first messages of the current operation. Returns whether nothing can be done now but wait for messages.
  bool begin_messages();
  /// Does all that can be done now.
  void advance();
  /// Fails the group if an awaited rank has left.
  void check_on_peers();
  /// Fails the group if the current operation took too long.
  void check_timeout();
  /// Ends all operations, with the group's failure if there is one, of which it notifies the other ranks.
  void fail_all();

  [[nodiscard]] bool empty() const { return running_.empty(); }
  [[nodiscard]] Clock::time_point last_begun() const { return last_begun_; }

 private:
  struct Running;

  void begin_first();
  [[nodiscard]] RequestState advance_first();

  Worker& worker_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  std::deque<std::unique_ptr<Running>> running_;     ///< only the first one has begun
  std::vector<std::unique_ptr<Running>> abandoned_;  ///< keep their memory until the worker is closed
  std::vector<std::byte> scratch_;
  std::unique_ptr<SharedSegments> shared_memory_;
  std::uint64_t shared_memory_turn_ = 0;
  std::uint32_t next_number_ = 0;
  Clock::time_point last_begun_;
  std::atomic<bool> uses_shared_memory_{false};
  std::atomic<bool> failed_{false};
};

}  // namespace rollcall::process_group::ucx
