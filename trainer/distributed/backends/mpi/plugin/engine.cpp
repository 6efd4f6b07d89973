#include "trainer/distributed/backends/mpi/plugin/engine.h"

#include <sys/prctl.h>
#include <algorithm>
#include <utility>

#include "runtime/contract/deadlines.h"
#include "trainer/distributed/backends/mpi/plugin/world.h"

namespace rollcall::process_group::mpi {
namespace {

using std::chrono::microseconds;

/// How long after MPI's last progress it is polled without a pause, except for other threads.
constexpr microseconds kEager{300};
/// Pause between polls afterwards.
constexpr microseconds kNap{40};
/// MPI does not report whether a poll made progress. One without progress takes less than a microsecond, one that
/// copied a fragment more than this.
constexpr microseconds kBusy{3};
constexpr unsigned long kTimerSlackNanoseconds = 1000;  // Linux's default would double the pause

}  // namespace

/// An operation that was started with MPI.
struct Engine::Running {
  Operation operation;
  std::uint64_t number = 0;
  Started started;
  Clock::time_point deadline;
};

Engine::Engine(MPI_Comm communicator) : communicator_(communicator) {
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() { shutdown(); }

void Engine::shutdown() {
  if (thread_.joinable()) {
    submissions_.stop();
    thread_.join();
  }
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
  const Clock::time_point deadline = Clock::now() + deadline::kFinalBarrier;
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

/// Returns false if the engine is to end.
bool Engine::take_new() {
  const bool stops = submissions_.is_stopped();  // first: so all that was submitted before is taken
  for (Operation& operation : submissions_.take()) {
    begin(std::move(operation));
  }
  if (const std::optional<std::string> reason = submissions_.take_abort()) {
    fail_all(*reason);
  }
  return !stops;
}

void Engine::begin(Operation operation) {
  auto running = std::make_unique<Running>();
  running->operation = std::move(operation);
  running->deadline = Clock::now() + running->operation.timeout;
  running->number = collectives_++;
  if (!failure_.empty()) {
    return report_end(running->operation, running->number, failure_);
  }
  {
    const std::lock_guard lock(mpi_mutex());
    start(running->operation.collective, communicator_, running->started);
  }
  if (!running->started.refusal.empty()) {
    return report_end(running->operation, running->number, running->started.refusal);
  }
  running_.push_back(std::move(running));
  active_ = Clock::now();
}

/// Returns whether the operation has ended.
bool Engine::test(Running& running) {
  int done = 0;
  int code = MPI_SUCCESS;
  {
    const std::lock_guard lock(mpi_mutex());
    code = MPI_Test(&running.started.request, &done, MPI_STATUS_IGNORE);
  }
  if (code == MPI_SUCCESS && done == 0) {
    return false;
  }
  if (code != MPI_SUCCESS) {
    failure_ = text_of(code);
  }
  report_end(running.operation, running.number, failure_);
  return true;
}

/// Returns whether an operation has ended.
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
  submissions_.wait(running_.empty() ? std::nullopt : std::optional(kNap));
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
    report_end(running->operation, running->number, reason);
    const std::lock_guard lock(mpi_mutex());
    abandoned.push_back(std::move(running));
  }
  running_.clear();
}

}  // namespace rollcall::process_group::mpi
