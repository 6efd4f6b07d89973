// How operations begin, and how threads that wait for them lend a hand.
#include <sched.h>
#include <thread>

#include "trainer/distributed/backends/ucx/engine.h"

namespace rollcall::process_group::ucx {

namespace {

/// Waking up a thread takes 30 to 100 us on virtual machines: what is over sooner need not begin with it. Where ranks
/// share cores, the one that is waited for may get its turn only after that.
constexpr std::chrono::microseconds kLongestSpin{1000};

}  // namespace

void Engine::submit(Operation operation) {
  const bool begins_in_wait = operation.awaited && !sleeps_long_;
  {
    const std::lock_guard lock(mutex_);
    submitted_.push_back(std::move(operation));
  }
  if (!begins_in_wait && !begin_here()) {
    worker_->wake();
  }
}

bool Engine::begin_here() {
  // A callback of an operation may submit the next one: then this thread has the role, and takes it on soon.
  if (driver_ == std::this_thread::get_id()) {
    return false;
  }
  const std::unique_lock role(role_, std::try_to_lock);
  if (!role || sleeps_long_ || worker_->failure()) {
    return false;
  }
  driver_ = std::this_thread::get_id();
  take_new();
  const bool only_messages = begin_messages();
  driver_ = std::thread::id();
  // What is to be copied or added first is not for this thread, and no message would wake the engine's for it.
  return only_messages && worker_->arm();
}

void Engine::help_until(const std::function<bool()>& done) {
  if (driver_ == std::this_thread::get_id() || done()) {
    return;
  }
  helpers_ += 1;
  const std::unique_lock role(role_);
  helpers_ -= 1;
  if (is_stopped()) {
    return;
  }
  driver_ = std::this_thread::get_id();
  worker_->let_messages_wake(false);
  work_until(done);
  // A peer that is ahead may have sent of the next operation already.
  constexpr int kRounds = 16;
  for (int i = 0; i < kRounds && !worker_->arm(); ++i) {
    worker_->progress();
  }
  worker_->let_messages_wake(true);  // after arm(), which takes back what was raised meanwhile: it would wake at once
  driver_ = std::thread::id();
  if (!collectives_.empty() || !messages_.empty()) {
    worker_->wake();
  }
}

void Engine::work_until(const std::function<bool()>& done) {
  Clock::time_point moved = Clock::now();
  while (!done()) {
    const bool moves = one_round();
    const Clock::time_point now = Clock::now();
    if (moves) {
      moved = now;
    } else if (now - moved > kLongestSpin) {
      return;
    } else {
      sched_yield();  // to the rank that is waited for, where it shares this core
    }
  }
}

}  // namespace rollcall::process_group::ucx
