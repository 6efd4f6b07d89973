#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/base/result.h"
#include "trainer/distributed/backends/engine/engine.h"
#include "trainer/distributed/backends/ucx/engine/operations.h"
#include "trainer/distributed/backends/ucx/engine/windows.h"
#include "trainer/distributed/backends/ucx/engine/worker.h"

namespace rollcall::process_group::ucx {

/// Whose turn it is to use the worker and the operations. A mutex that knows its owner: callbacks of operations run in
/// the turn of the thread that ends them, and must not ask for it again.
class Turn {
 public:
  void lock() {
    mutex_.lock();
    owner_ = std::this_thread::get_id();
  }
  [[nodiscard]] bool try_lock() {
    const bool locked = mutex_.try_lock();
    if (locked) {
      owner_ = std::this_thread::get_id();
    }
    return locked;
  }
  void unlock() {
    owner_ = std::thread::id();
    mutex_.unlock();
  }
  [[nodiscard]] bool is_mine() const { return owner_ == std::this_thread::get_id(); }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
};

/// Runs a group's operations over UCX. The thread sleeps in the kernel whenever nothing can be done: it takes a core
/// from the computation only while there is something to copy or add.
///
/// Who waits for an operation can lend its own thread: help_until(). Then neither the start nor the end of a short
/// operation has to pass from thread to thread, which takes longer than the operation itself.
///
/// So there are three kinds of threads, one of which has the turn:
///   the engine's own has it but while it sleeps for events. It sleeps, too, while others want to help;
///   one in help_until() has it until its operation is done or nothing has happened for a while. Messages do not wake
///   the engine's thread meanwhile;
///   one in submit() takes it only where nobody has it, to post first messages; otherwise it wakes the engine's thread,
///   or leaves the beginning to its own help_until().
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
  void use_windows() { operations_.use_windows(); }

  /// What is pending fails. Then the worker's shutdown: milliseconds, at most 2 s.
  void shutdown() override;

  /// Where nobody else does, the calling thread posts the operation's first messages.
  void submit(Operation operation) override;
  /// Until `done`, or until nothing has happened for a millisecond; then the engine's thread goes on.
  void help_until(const std::function<bool()>& done) override;
  /// The other ranks are told.
  void abort(const std::string& reason) override;
  [[nodiscard]] bool has_failed() const override { return operations_.has_failed(); }

 private:
  void run();
  void rest(std::unique_lock<Turn>& turn);
  [[nodiscard]] std::chrono::milliseconds longest_sleep() const;
  [[nodiscard]] bool begin_here();
  // In the caller's turn.
  [[nodiscard]] bool one_round();
  void work_until(const std::function<bool()>& done);
  /// Fails the group where an operation waits for a peer that has left, or for longer than its timeout.
  void check_waiting();
  void take_new();
  void check_abort();

  std::unique_ptr<Worker> worker_;  ///< null once shut down
  std::uint32_t rank_;
  Submissions submissions_;
  Turn turn_;
  Operations operations_;                 ///< used in a turn, as is worker_
  int unchecked_ = 0;                     ///< rounds since check_waiting()
  std::atomic<int> helpers_{0};           ///< threads in help_until() that wait for their turn
  std::atomic<bool> sleeps_long_{false};  ///< the engine's thread, until it is woken
  std::thread thread_;
};

/// This rank's engine of a new group, connected to all others: a message went to and came from each of them.
/// Collective. Every rank holds an endpoint to every other one, so that each notices a death by itself. `processes`: of
/// the step's ranks, as `names` calls them; null: one of this group's own.
///
/// Errors: those of Context, Worker and `exchange`; (Unavailable) not all ranks answered within `timeout`.
[[nodiscard]] Result<std::unique_ptr<Engine>> connect(std::uint32_t rank, std::uint32_t world_size,
                                                      const Exchange& exchange, std::chrono::milliseconds timeout,
                                                      const RankNames& names = {},
                                                      std::shared_ptr<ProcessWatch> processes = nullptr);

}  // namespace rollcall::process_group::ucx
