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
#include "trainer/distributed/backends/ucx/engine/shared_memory.h"
#include "trainer/distributed/backends/ucx/engine/worker.h"

namespace rollcall::process_group::ucx {

/// The mutex of the worker and the operations, which knows its owner: callbacks of operations run while the thread that
/// ends them holds it, and must not lock it again.
class OwnedMutex {
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

/// Runs a group's operations over UCX. The thread sleeps in the kernel whenever nothing can be done, and so takes a
/// core from the computation only while there is data to copy or add.
///
/// A thread that waits for an operation can help with help_until(). Then neither the start nor the end of a short
/// operation has to pass from thread to thread, which takes longer than the operation itself.
///
/// Three kinds of threads share the OwnedMutex:
///   The engine's own thread holds it except while it sleeps for events, or while others want to help.
///   A thread in help_until() holds it until its operation is done or nothing has happened for a while. Messages do not
///   wake the engine's thread meanwhile.
///   A thread in submit() takes it only if it is free, to post first messages. Otherwise it wakes the engine's thread,
///   or begins the operation in its own help_until().
///
/// After a failure destroy the engine; another one with fewer ranks may follow.
class Engine final : public process_group::Engine {
 public:
  /// `worker` is connected to its peers.
  Engine(std::unique_ptr<Worker> worker, std::unique_ptr<SharedSegments> shared_memory, std::uint32_t rank,
         std::uint32_t world_size);
  ~Engine() override;

  /// Sends long collectives through shared memory, from the next operation on. All ranks have mapped each other's. Call
  /// it on all ranks or on none.
  void use_shared_memory() { operations_.use_shared_memory(); }

  /// Fails all pending operations, then shuts the worker down: takes milliseconds, at most 2 s.
  void shutdown() override;

  /// The calling thread posts the operation's first messages if no other thread does.
  void submit(Operation operation) override;
  /// Returns after `done`, or if nothing has happened for a millisecond; then the engine's thread continues.
  void help_until(const std::function<bool()>& done) override;
  /// Also notifies the other ranks.
  void abort(const std::string& reason) override;
  [[nodiscard]] bool has_failed() const override { return operations_.has_failed(); }

 private:
  void run();
  void rest(std::unique_lock<OwnedMutex>& lock);
  [[nodiscard]] std::chrono::milliseconds longest_sleep() const;
  [[nodiscard]] bool begin_here();
  // The caller holds worker_mutex_.
  [[nodiscard]] bool one_round();
  void work_until(const std::function<bool()>& done);
  /// Fails the group if an operation waits for a peer that has left, or for longer than its timeout.
  void check_waiting();
  void take_new();
  void check_abort();

  std::unique_ptr<Worker> worker_;  ///< null after shutdown()
  std::uint32_t rank_;
  Submissions submissions_;
  OwnedMutex worker_mutex_;
  Operations operations_;                 ///< guarded by worker_mutex_, as is worker_
  int unchecked_ = 0;                     ///< rounds since check_waiting()
  std::atomic<int> helpers_{0};           ///< threads in help_until() that wait for worker_mutex_
  std::atomic<bool> sleeps_long_{false};  ///< whether the engine's thread sleeps until it is woken
  std::thread thread_;
};

/// Makes this rank's engine of a new group, and connects it to all others with a message in each direction. Collective.
/// Every rank has an endpoint to every other one, so that each notices a lost peer by itself. `processes` watches the
/// step's ranks, by their numbers of `names`; null: the engine makes its own watch.
///
/// Errors: those of Context, Worker and `all_gather`; (Unavailable) not all ranks answered within `timeout`.
[[nodiscard]] Result<std::unique_ptr<Engine>> connect(std::uint32_t rank, std::uint32_t world_size,
                                                      const BootstrapAllGather& all_gather,
                                                      std::chrono::milliseconds timeout, const RankNames& names = {},
                                                      std::shared_ptr<ProcessWatch> processes = nullptr);

}  // namespace rollcall::process_group::ucx
