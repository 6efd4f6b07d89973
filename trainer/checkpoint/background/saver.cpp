#include "trainer/checkpoint/background/saver.h"

#include <cassert>
#include <utility>

namespace rollcall::checkpoint::background {

BackgroundSaver::BackgroundSaver(RetryPolicy policy) : policy_(policy) {}

BackgroundSaver::~BackgroundSaver() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  leaving_changed_.notify_all();
}

Result<void> BackgroundSaver::start(std::int64_t step, LiveContent live, Write write) {
  assert(!busy() && !outcome_);
  const auto started = std::chrono::steady_clock::now();
  if (Result<void> begun = snapshot_.begin(std::move(live)); !begun) {
    return begun;
  }
  copier_.start([this] { snapshot_.copy_rest(); });
  writer_.start([this, step, started, write = std::move(write)] {
    snapshot_.wait_copied();
    copier_.wait();
    const Result<void> arrived = snapshot_.wait_arrived();
    snapshot_.let_go();
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
