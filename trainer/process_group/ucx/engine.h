#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trainer/process_group/ucx/operation.h"
#include "trainer/process_group/ucx/worker.h"

namespace rollcall::process_group::ucx {

/// Runs a group's operations on a thread of its own, so that they go on while the caller computes. Collectives run one
/// after the other in the order in which they were submitted, messages beside them. The thread sleeps in the kernel
/// whenever nothing can be done: it takes a core from the computation only while there is something to copy or add.
///
/// Who waits for an operation can lend its own thread: help_until(). Then neither the start nor the end of a short
/// operation has to pass from thread to thread, which takes longer than the operation itself.
///
/// The first failure, a dead peer or a passed timeout, ends the group: everything pending and all that is submitted
/// later fails with it. Destroy the engine then, and make another one of fewer ranks if wanted. Thread-safe.
class Engine {
 public:
  /// `worker` is connected to its peers.
  Engine(std::unique_ptr<Worker> worker, std::uint32_t rank);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  /// What is pending fails. Then the worker's goodbye: milliseconds, at most 2 s. Not on the engine's own thread.
  /// Nothing may be submitted afterwards; threads in help_until() return.
  void close();

  /// Where nobody else does, the calling thread posts the operation's first messages.
  void submit(Operation operation);
  /// Sees to the group's operations in the calling thread until `done`, or until nothing has happened for some tens of
  /// microseconds; then the engine's thread goes on. For threads that would otherwise wait, and so leave a core idle.
  /// Returns at once where this host has more ranks than cores.
  void help_until(const std::function<bool()>& done);
  /// Everything pending and later fails, naming `reason`; the other ranks are told.
  void abort(const std::string& reason);
  [[nodiscard]] bool has_failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Running;

  void run();
  [[nodiscard]] bool one_round();
  void rest(std::unique_lock<std::mutex>& role);
  [[nodiscard]] bool is_stopped();
  [[nodiscard]] static bool has_core_to_itself(const Worker& worker);
  [[nodiscard]] bool begin_here();
  void work_until(const std::function<bool()>& done);
  void take_new();
  void begin(Operation operation);
  void begin_next_collective();
  void begin_messages();
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
  bool helps_;  ///< whether threads that wait do: not where ranks share cores, and the one waited for needs this one

  std::mutex role_;                        ///< held by the thread that uses worker_ and what is below
  std::atomic<std::thread::id> driver_{};  ///< that thread
  std::atomic<int> helpers_{0};            ///< threads in help_until()
  std::atomic<bool> sleeps_long_{false};   ///< the engine's thread, until it is woken

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
  std::uint32_t next_collective_ = 0;
  Clock::time_point last_begun_;

  std::thread thread_;
};

}  // namespace rollcall::process_group::ucx
