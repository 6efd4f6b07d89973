#include "trainer/checkpoint/background/saver.h"

#include <pthread.h>

#include <cassert>
#include <utility>

namespace rollcall::checkpoint::background {
namespace {

/// Returns whether a later try may succeed: lost ranks, devices and memory do not come back, but a file system may.
bool may_pass_with_time(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::PeerLost:
    case ErrorKind::PeerTimeout:
    case ErrorKind::DeviceLost:
    case ErrorKind::DeviceOutOfMemory:
    case ErrorKind::Unavailable:
      return false;
    default:
      return true;
  }
}

}  // namespace

SaveOutcome write_with_retries(std::int64_t step, const RetryPolicy& policy, const std::function<Result<void>()>& write,
                               const std::function<bool(std::chrono::duration<double>)>& pause) {
  const auto started = std::chrono::steady_clock::now();
  SaveOutcome outcome;
  outcome.step = step;
  std::chrono::duration<double> length = policy.first_pause;
  for (std::int64_t tries = 0;; ++tries) {
    outcome.written = write();
    const bool may_pass = !outcome.written && may_pass_with_time(outcome.written.error().kind);
    if (!may_pass || tries == policy.retries || !pause(length)) {
      outcome.durable_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
      return outcome;
    }
    outcome.failures.push_back(outcome.written.error().reason);
    length *= 2;
  }
}

BackgroundThread::BackgroundThread() : thread_([this] { run(); }) {}

BackgroundThread::~BackgroundThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundThread::start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    assert(!work_);
    work_ = std::move(work);
  }
  changed_.notify_all();
}

void BackgroundThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
}

bool BackgroundThread::busy() const {
  const std::lock_guard lock(mutex_);
  return static_cast<bool>(work_);
}

void BackgroundThread::run() {
  pthread_setname_np(pthread_self(), "rollcall-save");  // for top, gdb and tools that change its priority
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_ || ending_; });
    if (!work_) {
      return;
    }
    lock.unlock();
    work_();
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

BackgroundSaver::BackgroundSaver(RetryPolicy policy) : policy_(policy) {}

BackgroundSaver::~BackgroundSaver() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  leaving_changed_.notify_all();
}

Result<void> BackgroundSaver::start(std::int64_t step, LiveContent live, Write write) {
  assert(!busy() && !outcome_);
  const auto started = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(snapshot_.begin(std::move(live)));
  copier_.start([this] { snapshot_.copy_rest(); });
  writer_.start([this, step, started, write = std::move(write)] {
    snapshot_.wait_copied();
    copier_.wait();
    const Result<void> arrived = snapshot_.take_arrived();
    snapshot_.release();
    outcome_ = write_with_retries(
        step, policy_, [&] { return arrived ? write(snapshot_.content()) : arrived; },
        [this](std::chrono::duration<double> length) { return pause(length); });
    outcome_->durable_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  });
  return {};
}

void BackgroundSaver::wait_copied() {
  if (busy()) {
    snapshot_.copy_rest();  // helps
  }
}

void BackgroundSaver::wait() { writer_.wait(); }

std::optional<SaveOutcome> BackgroundSaver::take_outcome() {
  return busy() ? std::nullopt : std::exchange(outcome_, std::nullopt);
}

bool BackgroundSaver::pause(std::chrono::duration<double> length) {
  std::unique_lock lock(mutex_);
  return !leaving_changed_.wait_for(lock, length, [this] { return leaving_; });
}

}  // namespace rollcall::checkpoint::background
