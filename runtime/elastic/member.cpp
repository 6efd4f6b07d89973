#include "runtime/elastic/member.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

namespace rollcall::elastic {

void Member::send(Report report) { actions_.push_back({.kind = Action::Kind::Send, .report = std::move(report)}); }

std::vector<Action> Member::take_actions() { return std::exchange(actions_, {}); }

void Member::stop_workers(int signal, bool lost) {
  if (state_ == State::Running) {
    state_ = State::Stopping;
    actions_.push_back({.kind = Action::Kind::Stop, .signal = signal, .keep = !leaving_, .lost = lost});
  } else if (state_ == State::Stopping && lost) {
    actions_.push_back({.kind = Action::Kind::ReportLoss});
  }
}

void Member::ordered(const Order& order) {
  if (state_ == State::Left) {
    return;
  }
  switch (order.kind) {
    case Order::Kind::Begin:
      begin(order.generation);
      break;
    case Order::Kind::Stop:
      stop(order.generation, order.lost);
      break;
    case Order::Kind::End:
      leave(order.outcome, SIGTERM);
      break;
    case Order::Kind::Refused:
      leave({to_int(ExitCode::Mismatch), {}, order.reason, /*own=*/true}, SIGTERM);
      break;
    case Order::Kind::Wait:
      learn(order.generation);
      break;
    case Order::Kind::World:  // handled by the connection
    case Order::Kind::Alive:
      forget_before(order.settled);
      break;
  }
}

/// Remembers the nodes of the generation for a loss of the coordinator.
void Member::learn(const Generation& generation) {
  if (generation.number > known_.number) {
    known_ = generation;
    contacted_ = 0;
  }
}

void Member::forget_before(std::uint32_t settled) {
  std::erase_if(known_.unsettled, [&](const Electorate& each) { return each.generation < settled; });
}

void Member::begin(const Generation& generation) {
  const bool idle = state_ == State::Waiting || state_ == State::Done;
  if (leaving_ || !idle || generation.number <= newest_) {
    return;
  }
  newest_ = generation.number;
  learn(generation);
  generation_ = generation;
  causes_.clear();
  state_ = State::Running;
  actions_.push_back({.kind = Action::Kind::Start, .generation = generation});
}

void Member::stop(const Generation& generation, bool lost) {
  if (leaving_ || generation.number < newest_) {
    return;
  }
  newest_ = generation.number;
  learn(generation);
  if (state_ == State::Running || state_ == State::Stopping) {
    stop_workers(SIGTERM, lost);
  } else {
    state_ = State::Waiting;
    send({.kind = Report::Kind::Stopped, .generation = newest_, .causes = causes_});
  }
}

void Member::worker_failed(const Cause& cause) {
  if (state_ != State::Running) {
    return;
  }
  if (!leaving_) {
    send({.kind = Report::Kind::Failed, .generation = generation_.number, .causes = {cause}});
  }
  stop_workers(SIGTERM, /*lost=*/true);
}

void Member::workers_ended(std::vector<Cause> causes) {
  if (state_ != State::Running && state_ != State::Stopping) {
    return;
  }
  const bool well = state_ == State::Running && causes.empty();
  causes_ = std::move(causes);
  if (leaving_) {
    state_ = State::Left;
    actions_.push_back({.kind = Action::Kind::Exit, .outcome = outcome_});
    return;
  }
  state_ = well ? State::Done : State::Waiting;
  send({.kind = well ? Report::Kind::Done : Report::Kind::Stopped, .generation = newest_, .causes = causes_});
}

void Member::leave(Outcome outcome, int signal) {
  if (leaving_) {
    return;
  }
  leaving_ = true;
  outcome_ = std::move(outcome);
  if (state_ == State::Running || state_ == State::Stopping) {
    stop_workers(signal, /*lost=*/false);
    return;
  }
  state_ = State::Left;
  actions_.push_back({.kind = Action::Kind::Exit, .outcome = outcome_});
}

void Member::coordinator_lost(const std::string& reason, bool silent) {
  constexpr std::size_t kFewest = 3;  // one of two nodes is not a majority
  if (leaving_ || state_ == State::Left) {
    return;
  }
  lost_ = contacted_ == 0 ? reason : lost_;
  if (contacted_ == known_.coordinator) {
    contacted_ += 1;
  }
  if (known_.world.size() < kFewest || contacted_ >= known_.world.size() || contacted_ > known_.group_rank) {
    leave({to_int(ExitCode::Unavailable), {}, lost_, /*own=*/true}, SIGTERM);
    return;
  }
  stop_workers(SIGTERM, silent);
  const bool own_turn = contacted_ == known_.group_rank;
  actions_.push_back({.kind = own_turn ? Action::Kind::Promote : Action::Kind::FailOver,
                      .generation = known_,
                      .successor = known_.world[contacted_]});
  contacted_ += 1;
}

void Member::coordinator_refused(const std::string& reason) {
  leave({to_int(ExitCode::Unavailable), {}, reason, /*own=*/true}, SIGTERM);
}

void Member::interrupted(int signal) {
  if (leaving_ || state_ == State::Left) {
    return;
  }
  interrupted_ = true;
  send({.kind = Report::Kind::Leave});
  leave({kSignalExitCode + signal, {}, ""}, signal);
}

std::string Member::fingerprint() const {
  return fmt::format("{}g{}n{}l{}c{}k{}{}u{}t{}", static_cast<int>(state_), generation_.number, newest_, leaving_,
                     causes_.size(), known_.number, known_.nonce, known_.unsettled.size(), contacted_);
}

}  // namespace rollcall::elastic
