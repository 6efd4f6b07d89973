#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trainer/distributed/backends/engine/engine.h"
#include "trainer/distributed/backends/ucx/windows.h"
#include "trainer/distributed/backends/ucx/worker.h"

namespace rollcall::process_group::ucx {

/// Runs a group's operations over UCX. Collectives run one after the other. The thread sleeps in the kernel whenever
/// nothing can be done: it takes a core from the computation only while there is something to copy or add.
///
/// Who waits for an operation can lend its own thread: help_until(). Then neither the start nor the end of a short
/// operation has to pass from thread to thread, which takes longer than the operation itself.
///
/// After a failure, destroy the engine, and make another one of fewer ranks if wanted.
class Engine final : public process_group::Engine {
 public:
  /// `worker` is connected to its peers.
  Engine(std::unique_ptr<Worker> worker, std::unique_ptr<Windows> windows, std::uint32_t rank,
         std::uint32_t world_size);
  ~Engine() override;

  /// From the next operation on, long ones go through the windows: this rank sees all others', and they its. On all
  /// ranks or on none.
  void use_windows() { uses_windows_.store(true); }

  /// What is pending fails. Then the worker's goodbye: milliseconds, at most 2 s.
  void close() override;

  /// Where nobody else does, the calling thread posts the operation's first messages.
  void submit(Operation operation) override;
  /// Until `done`, or until nothing has happened for a millisecond; then the engine's thread goes on.
  void help_until(const std::function<bool()>& done) override;
  /// The other ranks are told.
  void abort(const std::string& reason) override;
  [[nodiscard]] bool has_failed() const override { return failed_.load(std::memory_order_acquire); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Running;

  void run();
  [[nodiscard]] bool one_round();
  void rest(std::unique_lock<std::mutex>& role);
  [[nodiscard]] bool is_stopped();
  [[nodiscard]] bool begin_here();
  void work_until(const std::function<bool()>& done);
  void take_new();
  void begin(Operation operation);
  void begin_next_collective();
  [[nodiscard]] bool begin_messages();
  void advance();
  [[nodiscard]] RequestState advance_one(Running& running);
  void finish(Running& running, const std::string& failure);
  void check_on_peers();
  void check_timeouts();
  void check_abort();
  void fail_all();
  [[nodiscard]] std::chrono::milliseconds longest_sleep() const;

  std::unique_ptr<Worker> worker_;  ///< null once closed
  std::uint32_t rank_;
  std::uint32_t world_size_;

  std::mutex role_;                        ///< held by the thread that uses worker_ and what is below
  std::atomic<std::thread::id> driver_{};  ///< that thread
  std::atomic<int> helpers_{0};            ///< threads in help_until()
  std::atomic<bool> sleeps_long_{false};   ///< the engine's thread, until it is woken
  std::atomic<bool> uses_windows_{false};

  std::mutex mutex_;
  std::vector<Operation> submitted_;  ///< guarded by mutex_, like the next two
  std::string abort_reason_;
  bool stop_ = false;
  std::atomic<bool> failed_{false};

  // Guarded by role_.
  std::deque<std::unique_ptr<Running>> collectives_;  ///< the first one runs
  std::vector<std::unique_ptr<Running>> messages_;    ///< all of them run
  std::vector<std::unique_ptr<Running>> abandoned_;   ///< their memory stays until the worker is closed
  std::vector<std::byte> scratch_;
  std::unique_ptr<Windows> windows_;
  std::uint64_t window_turn_ = 0;
  std::uint32_t next_collective_ = 0;
  Clock::time_point last_begun_;

  std::thread thread_;
};

}  // namespace rollcall::process_group::ucx
