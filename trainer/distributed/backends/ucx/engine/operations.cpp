#include "trainer/distributed/backends/ucx/engine/operations.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "trainer/distributed/backends/engine/engine.h"

namespace rollcall::process_group::ucx {
namespace {

constexpr std::size_t kMessagesUnderWay = 4;  ///< of a collective, in each direction

/// Returns "rank 2, 3", with a question mark for any rank.
std::string list(const std::vector<std::uint32_t>& ranks, const RankNames& names) {
  std::string text;
  for (const std::uint32_t rank : ranks) {
    text += (text.empty() ? "rank " : ", ") + std::to_string(names.number(rank));
  }
  return text.empty() ? "rank ?" : text;
}

}  // namespace

/// An operation that has begun.
struct Operations::Running {
  Operation operation;
  std::uint32_t number = 0;  ///< of a collective
  Plan plan;                 ///< of a collective that has begun
  std::optional<Execution> execution;
  Request request = nullptr;  ///< of a message
  bool broken = false;        ///< the message failed; why shows in the worker's failure soon
  Clock::time_point deadline;

  [[nodiscard]] std::vector<std::uint32_t> awaited() const {
    if (execution) {
      return execution->awaited_peers();
    }
    return operation.message && operation.message->peer ? std::vector{*operation.message->peer}
                                                        : std::vector<std::uint32_t>{};
  }
};

Operations::Operations(Worker& worker, std::unique_ptr<SharedSegments> shared_memory, std::uint32_t rank,
                       std::uint32_t world_size)
    : worker_(worker), rank_(rank), world_size_(world_size), shared_memory_(std::move(shared_memory)) {}

Operations::~Operations() = default;

void Operations::begin(Operation operation) {
  auto running = std::make_unique<Running>();
  running->operation = std::move(operation);
  if (worker_.peers().failure()) {
    failed_.store(true, std::memory_order_release);  // before the callbacks of operations are called
    return finish(*running, worker_.peers().failure()->reason);
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
  running->request = message.sends ? worker_.send_tagged(*message.peer, message.tag, message.data, message.bytes)
                                   : worker_.receive_tagged(message.peer, message.tag, message.data, message.bytes);
  running->deadline = Clock::now() + running->operation.timeout;
  messages_.push_back(std::move(running));
}

bool Operations::begin_messages() {
  if (collectives_.empty()) {
    return true;
  }
  return collectives_.front()->execution->begin(worker_);
}

void Operations::begin_next_collective() {
  if (collectives_.empty()) {
    return;
  }
  Running& running = *collectives_.front();
  const Collective& collective = running.operation.collective;
  running.plan = plan_of(collective, rank_, world_size_, uses_shared_memory_ ? SharedSegments::kBytes : 0);
  if (scratch_.size() < running.plan.scratch_bytes) {
    scratch_.resize(running.plan.scratch_bytes);
  }
  Areas areas{.input = collective.input, .output = collective.output, .scratch = scratch_.data()};
  if (running.plan.uses_shared_memory()) {
    areas.shared_memory = shared_memory_->own(shared_memory_turn_);
    areas.peer_shared_memory = shared_memory_->peer_parts(shared_memory_turn_);
    shared_memory_turn_ += 1;
  }
  running.execution.emplace(running.plan, areas, combining_of(collective), running.number, kMessagesUnderWay);
  running.deadline = Clock::now() + running.operation.timeout;
}

RequestState Operations::advance_one(Running& running) {
  if (running.execution) {
    const RequestState state = running.execution->advance(worker_);
    if (const auto peer = running.execution->disagreeing_peer()) {
      worker_.peers().fail_with_difference(*peer, "is in another operation than this rank");
    }
    return state;
  }
  if (running.broken) {
    return RequestState::Failed;
  }
  const RequestState state = running.request == nullptr ? RequestState::Done : worker_.test(running.request);
  running.broken = state == RequestState::Failed;
  return state;
}

void Operations::advance() {
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

void Operations::finish(const Running& running, const std::string& failure) const {
  report_end(running.operation, running.number, failure, worker_.last_source());
}

void Operations::check_on_peers() {
  if (collectives_.empty()) {
    return;
  }
  for (const std::uint32_t peer : collectives_.front()->awaited()) {
    if (worker_.peers().has_left(peer)) {
      worker_.peers().fail_with(Failure{peer, worker_.peers().names().of(peer) + " has left the group"});
    }
  }
}

void Operations::check_timeouts() {
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
  worker_.peers().fail_with(Failure{awaited.empty() ? rank_ : awaited.front(),
                                    "not done within " + std::to_string(late->operation.timeout.count()) +
                                        " ms; waits for " + list(awaited, worker_.peers().names())});
}

void Operations::fail_all() {
  if (worker_.peers().failure()) {
    failed_.store(true, std::memory_order_release);
    worker_.shutdown();
  }
  const std::string reason = worker_.peers().failure() ? worker_.peers().failure()->reason : "the group was given up";
  const auto abandon = [&](std::unique_ptr<Running>& running) {
    finish(*running, reason);
    abandoned_.push_back(std::move(running));
  };
  std::for_each(messages_.begin(), messages_.end(), abandon);
  std::for_each(collectives_.begin(), collectives_.end(), abandon);
  messages_.clear();
  collectives_.clear();
}

}  // namespace rollcall::process_group::ucx
