#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "trainer/distributed/backends/engine/engine.h"
#include "trainer/distributed/backends/ucx/engine/windows.h"
#include "trainer/distributed/backends/ucx/engine/worker.h"

namespace rollcall::process_group::ucx {

/// A group's operations from where they begin to how they end: collectives one after the other, as plans of messages or
/// through windows, and messages beside them. Nothing here waits or knows of threads: one thread at a time, but for
/// use_windows() and has_failed(). Whoever asked for an operation is told its end from inside of these functions.
class Operations {
 public:
  using Clock = std::chrono::steady_clock;

  /// `worker` outlives all but the destructor.
  Operations(Worker& worker, std::unique_ptr<Windows> windows, std::uint32_t rank, std::uint32_t world_size);
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;
  ~Operations();

  /// From the next operation on, long ones go through the windows.
  void use_windows() { uses_windows_.store(true); }
  /// The group has failed, and who asked for an operation may have heard of it.
  [[nodiscard]] bool has_failed() const { return failed_.load(std::memory_order_acquire); }

  /// Takes `operation` on; ends it at once where the group has failed.
  void begin(Operation operation);
  /// Posts the first messages of the collective that runs. Whether there is nothing to do now but to wait for messages.
  bool begin_messages();
  /// Does all that can be done now.
  void advance();
  /// Fails where a rank that is waited for has left.
  void check_on_peers();
  /// Fails where something took too long: of several the one is told that was to be done first.
  void check_timeouts();
  /// Ends everything that was taken on, with the group's failure where there is one. Tells the other ranks of that.
  void fail_all();

  [[nodiscard]] bool empty() const { return collectives_.empty() && messages_.empty(); }
  [[nodiscard]] Clock::time_point last_begun() const { return last_begun_; }

 private:
  struct Running;

  void begin_next_collective();
  [[nodiscard]] RequestState advance_one(Running& running);
  void finish(const Running& running, const std::string& failure) const;

  Worker& worker_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  std::deque<std::unique_ptr<Running>> collectives_;  ///< the first one runs
  std::vector<std::unique_ptr<Running>> messages_;    ///< all of them run
  std::vector<std::unique_ptr<Running>> abandoned_;   ///< their memory stays until the worker is closed
  std::vector<std::byte> scratch_;
  std::unique_ptr<Windows> windows_;
  std::uint64_t window_turn_ = 0;
  std::uint32_t next_collective_ = 0;
  Clock::time_point last_begun_;
  std::atomic<bool> uses_windows_{false};
  std::atomic<bool> failed_{false};
};

}  // namespace rollcall::process_group::ucx
