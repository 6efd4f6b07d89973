#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/background/snapshot.h"

namespace rollcall::checkpoint::background {

/// The retries of a failed save.
struct RetryPolicy {
  std::int64_t retries = 2;                      ///< further tries of the same save
  std::chrono::duration<double> first_pause{1};  ///< before the first retry; doubled for each further one
};

/// The outcome of a save.
struct SaveOutcome {
  std::int64_t step = 0;              ///< of the training when it was saved
  Result<void> written;               ///< of the last try
  std::vector<std::string> failures;  ///< reasons of the failed tries before the last one
  double durable_seconds = 0;         ///< seconds until the file was in place, or the last try had failed
};

/// Calls `write` until it succeeds, as `policy` says. A lost peer (code Unavailable) is final. `pause` waits, or
/// returns false if there is no time for another try. Ranks that write together have the same errors and therefore
/// retry together.
[[nodiscard]] SaveOutcome write_with_retries(std::int64_t step, const RetryPolicy& policy,
                                             const std::function<Result<void>()>& write,
                                             const std::function<bool(std::chrono::duration<double>)>& pause);

/// A thread that does one task at a time. start() and wait() are for one thread, busy() for any.
class BackgroundThread {
 public:
  BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;
  /// Waits for the task.
  ~BackgroundThread();

  /// Starts `work`, which must not throw. Not while busy.
  void start(std::function<void()> work);
  void wait();
  [[nodiscard]] bool busy() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  ///< empty: nothing to do
  bool ending_ = false;
  std::thread thread_;  ///< last, because it uses the members above
};

/// Saves a training's state in the background. start() copies tensors that change at once; a thread copies the others,
/// which the training must not change before wait_copied() has returned; another thread writes.
///
/// start(), the waits and take_outcome() are for one thread. If several ranks save together, each has a saver and
/// starts the same saves in the same order.
class BackgroundSaver {
 public:
  /// Writes content to its destination; collective if ranks write together. Called on the writing thread, and again
  /// after a failure (see write_with_retries()). Must not throw.
  using Write = std::function<Result<void>(const format::Content& content)>;

  explicit BackgroundSaver(RetryPolicy policy);
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;
  /// Waits for the current try; no further ones are made.
  ~BackgroundSaver();

  /// Returns whether a save is in progress.
  [[nodiscard]] bool busy() const { return writer_.busy(); }
  /// Starts a save. Not while busy; the previous outcome must have been taken. Errors: those of Snapshot::begin(); no
  /// save is in progress then.
  [[nodiscard]] Result<void> start(std::int64_t step, LiveContent live, Write write);
  /// Waits until the state is copied. Call it before anything changes the state; it returns at once if the copy is
  /// complete.
  void wait_copied();
  /// Waits until the save has ended.
  void wait();
  /// Returns the outcome of the last save, once, after it has ended.
  [[nodiscard]] std::optional<SaveOutcome> take_outcome();

 private:
  /// Returns false if it ended early because the saver is being destroyed.
  bool pause(std::chrono::duration<double> length);

  RetryPolicy policy_;
  Snapshot snapshot_;
  std::optional<SaveOutcome> outcome_;  ///< owned by the writing thread while busy(), else by the caller
  std::mutex mutex_;
  std::condition_variable leaving_changed_;
  bool leaving_ = false;
  BackgroundThread copier_;
  BackgroundThread writer_;  ///< destroyed first: it waits for the copier
};

}  // namespace rollcall::checkpoint::background
