#include "trainer/distributed/backends/ucx/engine/engine.h"

#include <sched.h>
#include <utility>

namespace rollcall::process_group::ucx {
namespace {

using Clock = std::chrono::steady_clock;

/// Number of polls without progress before the thread sleeps: some microseconds, less than waking up takes.
constexpr int kIdleRounds = 64;

/// Deadlines are checked after this number of rounds at the latest. UCX's keep-alive counts as progress, so the
/// thread may never be idle.
constexpr int kUncheckedRounds = 64;

/// How long a thread helps before it sleeps: waking up takes 30 to 100 us on virtual machines, longer than short
/// operations. If ranks share cores, the awaited one may get the CPU only then.
constexpr std::chrono::microseconds kLongestSpin{1000};

}  // namespace

Engine::Engine(std::unique_ptr<Worker> worker, std::unique_ptr<SharedSegments> shared_memory, std::uint32_t rank,
               std::uint32_t world_size)
    : worker_(std::move(worker)), rank_(rank), operations_(*worker_, std::move(shared_memory), rank, world_size) {
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() { shutdown(); }

void Engine::shutdown() {
  if (!thread_.joinable()) {
    return;
  }
  submissions_.stop();
  worker_->wake();
  thread_.join();
  const std::lock_guard lock(worker_mutex_);
  worker_.reset();  // before the memory that it may still use
}

void Engine::abort(const std::string& reason) {
  submissions_.abort(reason);
  worker_->wake();
}

void Engine::take_new() {
  for (Operation& operation : submissions_.take()) {
    operations_.begin(std::move(operation));
  }
}

void Engine::check_abort() {
  if (const std::optional<std::string> reason = submissions_.take_abort()) {
    worker_->peers().fail_with(Failure{rank_, *reason});
  }
}

bool Engine::one_round() {
  take_new();
  const bool moved = worker_->progress();
  operations_.advance();
  check_abort();
  if (worker_->peers().failure()) {
    operations_.fail_all();
  }
  if (++unchecked_ >= kUncheckedRounds) {
    check_waiting();
  }
  return moved;
}

void Engine::check_waiting() {
  operations_.check_on_peers();
  operations_.check_timeout();
  unchecked_ = 0;
}

// The engine's own thread.

void Engine::run() {
  std::unique_lock lock(worker_mutex_);
  for (int idle = 0; !submissions_.is_stopped();) {
    idle = one_round() ? 0 : idle + 1;
    if (idle >= kIdleRounds || helpers_ > 0) {
      check_waiting();
      rest(lock);
      idle = 0;
    }
  }
  take_new();
  check_abort();
  operations_.fail_all();
}

void Engine::rest(std::unique_lock<OwnedMutex>& lock) {
  const std::chrono::milliseconds longest = longest_sleep();
  // There may also be sends that wait for space in a peer's queue, which raises no event.
  if (helpers_ == 0 && !worker_->arm()) {
    sched_yield();
    return;
  }
  sleeps_long_ = longest < std::chrono::milliseconds::zero();
  lock.unlock();
  const Worker::Events events = worker_->await_event(longest);
  lock.lock();
  sleeps_long_ = false;
  worker_->handle(events);
}

std::chrono::milliseconds Engine::longest_sleep() const {
  // Keep-alive runs inside of progress(): while an operation is pending, a sleep is limited to a part of its interval.
  constexpr std::chrono::milliseconds kShort{25};
  if (worker_->peers().has_suspects()) {
    return std::chrono::milliseconds(2);
  }
  // Between operations too: another thread may begin the next one, and this one need not be woken for it.
  const bool busy = !operations_.empty() || Clock::now() - operations_.last_begun() < std::chrono::seconds(1);
  return busy ? kShort : std::chrono::milliseconds(-1);
}

// Threads that submit.

void Engine::submit(Operation operation) {
  const bool begins_in_wait = operation.awaited && !sleeps_long_;
  submissions_.submit(std::move(operation));
  if (!begins_in_wait && !begin_here()) {
    worker_->wake();
  }
}

bool Engine::begin_here() {
  // A callback of an operation may submit the next one: then this thread has the lock, and takes it on soon.
  if (worker_mutex_.is_mine()) {
    return false;
  }
  const std::unique_lock lock(worker_mutex_, std::try_to_lock);
  if (!lock || sleeps_long_ || worker_->peers().failure()) {
    return false;
  }
  take_new();
  // If data must be copied or added first, the engine's thread must do it, and no message would wake it.
  return operations_.begin_messages() && worker_->arm();
}

// Threads that wait and help.

void Engine::help_until(const std::function<bool()>& done) {
  if (worker_mutex_.is_mine() || done()) {
    return;
  }
  helpers_ += 1;
  const std::unique_lock lock(worker_mutex_);
  helpers_ -= 1;
  if (submissions_.is_stopped()) {
    return;
  }
  worker_->let_messages_wake(false);
  work_until(done);
  // A peer that is ahead may have sent messages of the next operation already.
  constexpr int kRounds = 16;
  for (int i = 0; i < kRounds && !worker_->arm(); ++i) {
    worker_->progress();
  }
  worker_->let_messages_wake(true);  // after arm(), which resets earlier events: they would wake it at once
  if (!operations_.empty()) {
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
      sched_yield();  // to the awaited rank, if it shares this core
    }
  }
}

}  // namespace rollcall::process_group::ucx
