#include "trainer/distributed/backends/mpi/engine.h"

#include <sys/prctl.h>
#include <algorithm>
#include <utility>

#include "trainer/distributed/backends/mpi/start.h"
#include "trainer/distributed/backends/mpi/world.h"

namespace rollcall::process_group::mpi {
namespace {

using std::chrono::microseconds;

/// So long after MPI did something, it is asked without a pause but for other threads' turns.
constexpr microseconds kEager{300};
/// Afterwards, between questions.
constexpr microseconds kNap{40};
/// MPI does not tell whether a question moved anything. One in vain takes less than a microsecond, one that copied a
/// fragment more than this.
constexpr microseconds kBusy{3};
constexpr std::chrono::milliseconds kLeave{300};
constexpr unsigned long kTimerSlackNanoseconds = 1000;  // Linux's own would double the nap

}  // namespace

/// An operation that MPI was asked for.
struct Engine::Running {
  Operation operation;
  std::uint64_t number = 0;  ///< of a collective
  Started started;
  Clock::time_point deadline;
};

Engine::Engine(MPI_Comm communicator) : communicator_(communicator) {
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() { close(); }

void Engine::close() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  news_.notify_one();
  thread_.join();
}

void Engine::submit(Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    submitted_.push_back(std::move(operation));
  }
  news_.notify_one();
}

void Engine::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    abort_reason_ = reason;
  }
  news_.notify_one();
}

void Engine::run() {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds);
  while (take_new()) {
    if (!test_all()) {
      check_timeouts();
      wait_a_little();
    }
  }
  if (!running_.empty()) {
    fail_all("the group was given up");
  } else if (!has_given_up()) {
    leave();
  }
}

void Engine::leave() {
  const Clock::time_point deadline = Clock::now() + kLeave;
  MPI_Request barrier = MPI_REQUEST_NULL;
  std::unique_lock lock(mpi_mutex());
  MPI_Ibarrier(communicator_, &barrier);
  int done = 0;
  while (MPI_Test(&barrier, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0 && Clock::now() < deadline) {
    lock.unlock();
    std::this_thread::sleep_for(kNap);
    lock.lock();
  }
  if (done != 0) {
    MPI_Comm_free(&communicator_);
  }
}

/// False where the engine ends.
bool Engine::take_new() {
  std::vector<Operation> taken;
  std::string abort_reason;
  bool stop = false;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(submitted_);
    abort_reason.swap(abort_reason_);
    stop = stop_;
  }
  for (Operation& operation : taken) {
    begin(std::move(operation));
  }
  if (!abort_reason.empty()) {
    fail_all(abort_reason);
  }
  return !stop;
}

void Engine::begin(Operation operation) {
  auto running = std::make_unique<Running>();
  running->operation = std::move(operation);
  running->deadline = Clock::now() + running->operation.timeout;
  running->number = running->operation.message ? 0 : collectives_++;
  if (!failure_.empty()) {
    return finish(*running, failure_);
  }
  {
    const std::lock_guard lock(mpi_mutex());
    if (running->operation.message) {
      start(*running->operation.message, communicator_, running->started);
    } else {
      start(running->operation.collective, communicator_, running->started);
    }
  }
  if (!running->started.refusal.empty()) {
    return finish(*running, running->started.refusal);
  }
  running_.push_back(std::move(running));
  active_ = Clock::now();
}

/// Whether it has ended.
bool Engine::test(Running& running) {
  int done = 0;
  MPI_Status status{};
  int code = MPI_SUCCESS;
  {
    const std::lock_guard lock(mpi_mutex());
    code = MPI_Test(&running.started.request, &done, &status);
  }
  if (code != MPI_SUCCESS || done != 0) {
    end(running, code, status);
  }
  return code != MPI_SUCCESS || done != 0;
}

void Engine::end(const Running& running, int code, const MPI_Status& status) {
  const std::optional<PointToPoint>& message = running.operation.message;
  if (code == MPI_SUCCESS && message && !message->sends) {
    int received = 0;
    {
      const std::lock_guard lock(mpi_mutex());
      MPI_Get_count(&status, MPI_BYTE, &received);
    }
    if (static_cast<std::size_t>(received) == message->bytes) {
      return finish(running, "", static_cast<std::uint32_t>(status.MPI_SOURCE));
    }
    failure_ = "a message of " + std::to_string(received) + " bytes came";
  } else if (code != MPI_SUCCESS) {
    failure_ = text_of(code);
  }
  finish(running, failure_);
}

/// Whether something ended.
bool Engine::test_all() {
  const Clock::time_point asked = Clock::now();
  const bool ended =
      std::erase_if(running_, [this](const std::unique_ptr<Running>& running) { return test(*running); }) > 0;
  const Clock::time_point answered = Clock::now();
  if (ended || answered - asked > kBusy) {
    active_ = answered;
  }
  if (!failure_.empty()) {
    fail_all(failure_);
  }
  return ended;
}

void Engine::check_timeouts() {
  const Clock::time_point now = Clock::now();
  const auto late = std::find_if(running_.begin(), running_.end(),
                                 [&](const std::unique_ptr<Running>& running) { return now >= running->deadline; });
  if (late != running_.end()) {
    fail_all("not done within " + std::to_string((*late)->operation.timeout.count()) + " ms");
  }
}

void Engine::wait_a_little() {
  if (!running_.empty() && Clock::now() - active_ < kEager) {
    std::this_thread::yield();
    return;
  }
  const auto has_news = [this] { return stop_ || !submitted_.empty() || !abort_reason_.empty(); };
  std::unique_lock lock(mutex_);
  if (running_.empty()) {
    news_.wait(lock, has_news);
  } else {
    news_.wait_for(lock, kNap, has_news);
  }
}

void Engine::finish(const Running& running, const std::string& failure, std::uint32_t source) const {
  const Operation& operation = running.operation;
  const std::string title =
      operation.message ? operation.name : operation.name + " (number " + std::to_string(running.number) + ")";
  operation.done(failure.empty() ? failure : title + ": " + failure, source);
}

void Engine::fail_all(const std::string& reason) {
  // MPI may still write into their memory.
  static auto& abandoned = *new std::vector<std::unique_ptr<Running>>;
  failure_ = reason;
  failed_.store(true, std::memory_order_release);
  if (!running_.empty()) {
    give_up();
  }
  for (std::unique_ptr<Running>& running : running_) {
    finish(*running, reason);
    const std::lock_guard lock(mpi_mutex());
    abandoned.push_back(std::move(running));
  }
  running_.clear();
}

}  // namespace rollcall::process_group::mpi
