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

/// What is done when a save fails.
struct RetryPolicy {
  std::int64_t retries = 2;                      ///< further tries of the same save
  std::chrono::duration<double> first_pause{1};  ///< before the first of them; doubled for each further one
};

/// How a save went.
struct SaveOutcome {
  std::int64_t step = 0;              ///< the training's, when it was saved
  Result<void> written;               ///< the last try's
  std::vector<std::string> failures;  ///< reasons of the tries that failed before the last one
  double durable_seconds = 0;         ///< until the file was in place, or the last try had failed
};

/// Calls `write` until it succeeds, as `policy` says. A lost peer (code Unavailable) is final. `pause` waits, or
/// returns false where there is no time for another try. Ranks that write together have the same errors, and so try
/// again together.
[[nodiscard]] SaveOutcome write_with_retries(std::int64_t step, const RetryPolicy& policy,
                                             const std::function<Result<void>()>& write,
                                             const std::function<bool(std::chrono::duration<double>)>& pause);

/// A thread that does one thing at a time. start() and wait() are for one thread, busy() for any.
class BackgroundThread {
 public:
  BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;
  /// Waits for what was started.
  ~BackgroundThread();

  /// Not while busy. `work` must not throw.
  void start(std::function<void()> work);
  void wait();
  [[nodiscard]] bool busy() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  ///< empty: nothing to do
  bool ending_ = false;
  std::thread thread_;  ///< last: it uses what is above
};

/// Saves a training's state in the background. start() copies what changes at once; a thread copies the rest, which
/// the training must not change before wait_copied() has returned; another one writes.
///
/// start(), the waits and take_outcome() are for one thread. With several ranks each has a saver, and starts the same
/// saves in the same order.
class BackgroundSaver {
 public:
  /// Writes content to its place; where ranks write together, collective. Called on the writing thread, again after a
  /// failure (see write_with_retries()). Must not throw.
  using Write = std::function<Result<void>(const format::Content& content)>;

  explicit BackgroundSaver(RetryPolicy policy);
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;
  /// Waits for the try that is under way; further ones are not made.
  ~BackgroundSaver();

  /// Whether a save is under way.
  [[nodiscard]] bool busy() const { return writer_.busy(); }
  /// Not while busy; the former outcome must have been taken. Errors: those of Snapshot::begin(): then nothing is under
  /// way.
  [[nodiscard]] Result<void> start(std::int64_t step, LiveContent live, Write write);
  /// Before anything changes the state: returns at once unless the copy is still going.
  void wait_copied();
  /// Until the save is done.
  void wait();
  /// How the last save went, once it is done and not been told yet.
  [[nodiscard]] std::optional<SaveOutcome> take_outcome();

 private:
  /// False where it ended early: the saver is going.
  bool pause(std::chrono::duration<double> length);

  RetryPolicy policy_;
  Snapshot snapshot_;
  std::optional<SaveOutcome> outcome_;  ///< the writing thread's while busy(), else the caller's
  std::mutex mutex_;
  std::condition_variable leaving_changed_;
  bool leaving_ = false;
  BackgroundThread copier_;
  BackgroundThread writer_;  ///< ends first: it waits for the copier
};

}  // namespace rollcall::checkpoint::background
