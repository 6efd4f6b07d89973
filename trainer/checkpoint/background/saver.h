#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "runtime/base/result.h"
#include "trainer/checkpoint/background/retries.h"
#include "trainer/checkpoint/background/snapshot.h"
#include "trainer/checkpoint/background/worker.h"

namespace rollcall::checkpoint::background {

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
  Worker copier_;
  Worker writer_;  ///< ends first: it waits for the copier
};

}  // namespace rollcall::checkpoint::background
