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
/// after the other in the order in which they were submitted, messages beside them. The thread sleeps in poll(2)
/// whenever nothing can be done: it takes a core from the computation only while there is something to copy or add.
///
/// The first failure, a dead peer or a passed timeout, ends the group: everything pending and all that is submitted
/// later fails with it. Destroy the engine then, and make another one of fewer ranks if wanted. Thread-safe.
class Engine {
 public:
  /// `worker` is connected to its peers.
  Engine(std::unique_ptr<Worker> worker, std::uint32_t rank);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// What is pending fails. Then the worker's goodbye: milliseconds, at most 2 s. Not on the engine's own thread.
  ~Engine();

  void submit(Operation operation);
  /// Everything pending and later fails, naming `reason`; the other ranks are told.
  void abort(const std::string& reason);
  [[nodiscard]] bool has_failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Running;

  void run();
  void take_new();
  void begin(Operation operation);
  void begin_next_collective();
  void advance();
  [[nodiscard]] RequestState advance_one(Running& running);
  void finish(Running& running, const std::string& failure);
  void check_on_peers();
  void check_timeouts();
  void check_abort();
  void fail_all();
  [[nodiscard]] std::chrono::milliseconds longest_sleep() const;

  std::unique_ptr<Worker> worker_;  ///< the engine's thread only, but for wake()
  std::uint32_t rank_;

  std::mutex mutex_;
  std::vector<Operation> submitted_;  ///< guarded by mutex_, like the next two
  std::string abort_reason_;
  bool stop_ = false;
  std::atomic<bool> failed_{false};

  // Of the engine's thread alone.
  std::deque<std::unique_ptr<Running>> collectives_;  ///< the first one runs
  std::vector<std::unique_ptr<Running>> messages_;    ///< all of them run
  std::vector<std::unique_ptr<Running>> abandoned_;   ///< their memory stays until the worker is closed
  std::vector<std::byte> scratch_;
  std::uint32_t next_collective_ = 0;

  std::thread thread_;
};

}  // namespace rollcall::process_group::ucx
