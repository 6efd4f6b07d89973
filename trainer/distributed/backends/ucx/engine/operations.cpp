#include "trainer/distributed/backends/ucx/engine/operations.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "trainer/distributed/backends/engine/engine.h"

namespace rollcall::process_group::ucx {
namespace {

constexpr std::size_t kMessagesUnderWay = 4;  ///< of an operation, in each direction

/// Returns "rank 2, 3", with a question mark if there are none.
std::string list(const std::vector<std::uint32_t>& ranks, const RankNames& names) {
  std::string text;
  for (const std::uint32_t rank : ranks) {
    text += (text.empty() ? "rank " : ", ") + std::to_string(names.number(rank));
  }
  return text.empty() ? "rank ?" : text;
}

}  // namespace

/// An operation, and its plan once it has begun.
struct Operations::Running {
  Operation operation;
  std::uint32_t number = 0;
  Plan plan;
  std::optional<Execution> execution;
  Clock::time_point deadline;
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
    return report_end(running->operation, running->number, worker_.peers().failure()->reason);
  }
  last_begun_ = Clock::now();
  running->number = next_number_++;
  running_.push_back(std::move(running));
  if (running_.size() == 1) {
    begin_first();
  }
}

bool Operations::begin_messages() { return running_.empty() || running_.front()->execution->begin(worker_); }

void Operations::begin_first() {
  if (running_.empty()) {
    return;
  }
  Running& running = *running_.front();
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

RequestState Operations::advance_first() {
  Execution& execution = *running_.front()->execution;
  const RequestState state = execution.advance(worker_);
  if (const auto peer = execution.disagreeing_peer()) {
    worker_.peers().fail_with_difference(*peer, "is in another operation than this rank");
  }
  return state;
}

void Operations::advance() {
  while (!running_.empty() && advance_first() == RequestState::Done) {
    const std::unique_ptr<Running> done = std::move(running_.front());
    running_.pop_front();
    report_end(done->operation, done->number, "");
    begin_first();
  }
}

void Operations::check_on_peers() {
  if (running_.empty()) {
    return;
  }
  for (const std::uint32_t peer : running_.front()->execution->awaited_peers()) {
    if (worker_.peers().has_left(peer)) {
      worker_.peers().fail_with(Failure{peer, worker_.peers().names().of(peer) + " has left the group"});
    }
  }
}

void Operations::check_timeout() {
  if (running_.empty() || Clock::now() < running_.front()->deadline) {
    return;
  }
  const Running& late = *running_.front();
  const std::vector<std::uint32_t> awaited = late.execution->awaited_peers();
  worker_.peers().fail_with(Failure{awaited.empty() ? rank_ : awaited.front(),
                                    "not done within " + std::to_string(late.operation.timeout.count()) +
                                        " ms; waits for " + list(awaited, worker_.peers().names())});
}

void Operations::fail_all() {
  if (worker_.peers().failure()) {
    failed_.store(true, std::memory_order_release);
    worker_.shutdown();
  }
  const std::string reason = worker_.peers().failure() ? worker_.peers().failure()->reason : "the group was given up";
  for (std::unique_ptr<Running>& running : running_) {
    report_end(running->operation, running->number, reason);
    abandoned_.push_back(std::move(running));
  }
  running_.clear();
}

}  // namespace rollcall::process_group::ucx
