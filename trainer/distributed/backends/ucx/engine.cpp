#include "trainer/distributed/backends/ucx/engine.h"

#include <sched.h>
#include <algorithm>
#include <utility>

namespace rollcall::process_group::ucx {
namespace {

/// How often the worker is asked in vain before the thread sleeps: some microseconds, less than waking up takes.
constexpr int kIdleRounds = 64;
constexpr std::size_t kMessagesUnderWay = 4;  ///< of a collective, in each direction

/// "rank 2, 3"; a question mark where any rank will do.
std::string list(const std::vector<std::uint32_t>& ranks, const RankNames& names) {
  std::string text;
  for (const std::uint32_t rank : ranks) {
    text += (text.empty() ? "rank " : ", ") + std::to_string(names.number(rank));
  }
  return text.empty() ? "rank ?" : text;
}

}  // namespace

/// An operation that was taken on.
struct Engine::Running {
  Operation operation;
  std::uint32_t number = 0;  ///< of a collective
  Plan plan;                 ///< of a collective that has begun
  std::optional<Execution> execution;
  Request request = nullptr;  ///< of a message
  bool broken = false;        ///< the message failed; why shows in the worker's failure soon
  Clock::time_point deadline;

  [[nodiscard]] std::string title() const {
    return operation.message ? operation.name : operation.name + " (number " + std::to_string(number) + ")";
  }
  [[nodiscard]] std::vector<std::uint32_t> awaited() const {
    if (execution) {
      return execution->awaited_peers();
    }
    return operation.message && operation.message->peer ? std::vector{*operation.message->peer}
                                                        : std::vector<std::uint32_t>{};
  }
};

Engine::Engine(std::unique_ptr<Worker> worker, std::unique_ptr<Windows> windows, std::uint32_t rank,
               std::uint32_t world_size)
    : worker_(std::move(worker)), rank_(rank), world_size_(world_size), windows_(std::move(windows)) {
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
  worker_->wake();
  thread_.join();
  const std::lock_guard role(role_);
  worker_.reset();  // before the memory of what it may still know
}

void Engine::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    abort_reason_ = reason;
  }
  worker_->wake();
}

bool Engine::is_stopped() {
  const std::lock_guard lock(mutex_);
  return stop_;
}

bool Engine::one_round() {
  take_new();
  const bool moved = worker_->progress();
  advance();
  check_abort();
  if (worker_->failure()) {
    fail_all();
  }
  return moved;
}

void Engine::run() {
  std::unique_lock role(role_);
  for (int idle = 0; !is_stopped();) {
    driver_ = std::this_thread::get_id();
    idle = one_round() ? 0 : idle + 1;
    if (idle >= kIdleRounds || helpers_ > 0) {
      check_on_peers();
      check_timeouts();
      rest(role);
      idle = 0;
    }
  }
  take_new();
  check_abort();
  fail_all();
}

void Engine::rest(std::unique_lock<std::mutex>& role) {
  const std::chrono::milliseconds longest = longest_sleep();
  // What there is to do may also be sends that wait for room in a peer's queue, which raises no event. Where that
  // peer's process has ended they wait for ever, and only a look at processes says so.
  if (helpers_ == 0 && !worker_->arm()) {
    worker_->handle(worker_->await_event(std::chrono::milliseconds(0)));
    sched_yield();
    return;
  }
  sleeps_long_ = longest < std::chrono::milliseconds::zero();
  driver_ = std::thread::id();
  role.unlock();
  const Worker::Events events = worker_->await_event(longest);
  role.lock();
  sleeps_long_ = false;
  worker_->handle(events);
}

void Engine::take_new() {
  std::vector<Operation> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(submitted_);
  }
  for (Operation& operation : taken) {
    begin(std::move(operation));
  }
}

void Engine::begin(Operation operation) {
  auto running = std::make_unique<Running>();
  running->operation = std::move(operation);
  if (worker_->failure()) {
    failed_.store(true, std::memory_order_release);  // before who submitted it hears of it
    return finish(*running, worker_->failure()->reason);
  }
  last_begun_ = Clock::now();
  if (!running->operation.message) {
    running->number = next_collective_++;
    collectives_.push_back(std::move(running));
    if (collectives_.size() == 1) {
      begin_next_collective();
    }
    return;
  }
  const PointToPoint& message = *running->operation.message;
  running->request = message.sends ? worker_->send_tagged(*message.peer, message.tag, message.data, message.bytes)
                                   : worker_->receive_tagged(message.peer, message.tag, message.data, message.bytes);
  running->deadline = Clock::now() + running->operation.timeout;
  messages_.push_back(std::move(running));
}

/// Whether there is nothing to do now but to wait for messages.
bool Engine::begin_messages() {
  if (collectives_.empty()) {
    return true;
  }
  return collectives_.front()->execution->begin(*worker_);
}

void Engine::begin_next_collective() {
  if (collectives_.empty()) {
    return;
  }
  Running& running = *collectives_.front();
  const Collective& collective = running.operation.collective;
  running.plan = plan_of(collective, rank_, world_size_, uses_windows_ ? Windows::kBytes : 0);
  if (scratch_.size() < running.plan.scratch_bytes) {
    scratch_.resize(running.plan.scratch_bytes);
  }
  Areas areas{.input = collective.input, .output = collective.output, .scratch = scratch_.data()};
  if (running.plan.uses_windows()) {
    areas.window = windows_->own(window_turn_);
    areas.peer_windows = windows_->of_peers(window_turn_);
    window_turn_ += 1;
  }
  running.execution.emplace(running.plan, areas, combining_of(collective), running.number, kMessagesUnderWay);
  running.deadline = Clock::now() + running.operation.timeout;
}

RequestState Engine::advance_one(Running& running) {
  if (running.execution) {
    const RequestState state = running.execution->advance(*worker_);
    if (const auto peer = running.execution->disagreeing_peer()) {
      worker_->fail_with_difference(*peer, "is in another operation than this rank");
    }
    return state;
  }
  if (running.broken) {
    return RequestState::Failed;
  }
  const RequestState state = running.request == nullptr ? RequestState::Done : worker_->test(running.request);
  running.broken = state == RequestState::Failed;
  return state;
}

void Engine::advance() {
  std::erase_if(messages_, [this](const std::unique_ptr<Running>& message) {
    const RequestState state = advance_one(*message);
    if (state == RequestState::Done) {
      finish(*message, "");
    }
    return state == RequestState::Done;
  });
  while (!collectives_.empty() && advance_one(*collectives_.front()) == RequestState::Done) {
    const std::unique_ptr<Running> done = std::move(collectives_.front());
    collectives_.pop_front();
    finish(*done, "");
    begin_next_collective();
  }
}

void Engine::finish(Running& running, const std::string& failure) {
  running.operation.done(failure.empty() ? failure : running.title() + ": " + failure, worker_->last_source());
}

void Engine::check_on_peers() {
  if (collectives_.empty()) {
    return;
  }
  for (const std::uint32_t peer : collectives_.front()->awaited()) {
    if (worker_->has_left(peer)) {
      worker_->fail_with(Failure{peer, worker_->names().of(peer) + " has left the group"});
    }
  }
}

/// Of several that took too long the one is told that was to be done first.
void Engine::check_timeouts() {
  const Clock::time_point now = Clock::now();
  const Running* late = nullptr;
  const auto check = [&](const Running& running) {
    if (now >= running.deadline && (late == nullptr || running.deadline < late->deadline)) {
      late = &running;
    }
  };
  std::for_each(messages_.begin(), messages_.end(), [&](const auto& message) { check(*message); });
  if (!collectives_.empty()) {
    check(*collectives_.front());
  }
  if (late == nullptr) {
    return;
  }
  const std::vector<std::uint32_t> awaited = late->awaited();
  worker_->fail_with(Failure{awaited.empty() ? rank_ : awaited.front(),
                             "not done within " + std::to_string(late->operation.timeout.count()) + " ms; waits for " +
                                 list(awaited, worker_->names())});
}

void Engine::check_abort() {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_.empty()) {
    worker_->fail_with(Failure{rank_, abort_reason_});
  }
}

void Engine::fail_all() {
  if (worker_->failure()) {
    failed_.store(true, std::memory_order_release);
    worker_->give_up();
  }
  const std::string reason = worker_->failure() ? worker_->failure()->reason : "the group was given up";
  const auto abandon = [&](std::unique_ptr<Running>& running) {
    finish(*running, reason);
    abandoned_.push_back(std::move(running));
  };
  std::for_each(messages_.begin(), messages_.end(), abandon);
  std::for_each(collectives_.begin(), collectives_.end(), abandon);
  messages_.clear();
  collectives_.clear();
}

std::chrono::milliseconds Engine::longest_sleep() const {
  // Keep-alive runs inside of progress(): while somebody waits, a sleep is bounded by a good part of its interval.
  constexpr std::chrono::milliseconds kShort{25};
  if (worker_->has_suspects()) {
    return std::chrono::milliseconds(2);
  }
  // Between operations too: another thread may begin the next one, and this one need not be woken for it.
  const bool busy = !collectives_.empty() || !messages_.empty() || Clock::now() - last_begun_ < std::chrono::seconds(1);
  return busy ? kShort : std::chrono::milliseconds(-1);
}

}  // namespace rollcall::process_group::ucx
