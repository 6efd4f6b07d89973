#include "runtime/elastic/member.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

namespace rollcall::elastic {

void Member::send(Report report) { actions_.push_back({.kind = Action::Kind::Send, .report = std::move(report)}); }

std::vector<Action> Member::take_actions() { return std::exchange(actions_, {}); }

void Member::stop_workers(int signal) {
  if (state_ == State::Running) {
    state_ = State::Stopping;
    actions_.push_back({.kind = Action::Kind::Stop, .signal = signal});
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
      stop(order.generation.number);
      break;
    case Order::Kind::End:
      leave(order.outcome, SIGTERM);
      break;
    case Order::Kind::Refused:
      leave({to_int(ExitCode::Mismatch), {}, order.reason}, SIGTERM);
      break;
    case Order::Kind::Wait:
    case Order::Kind::Alive:
      break;
  }
}

void Member::begin(const Generation& generation) {
  const bool idle = state_ == State::Waiting || state_ == State::Done;
  if (leaving_ || !idle || generation.number <= newest_) {
    return;
  }
  newest_ = generation.number;
  generation_ = generation;
  causes_.clear();
  state_ = State::Running;
  actions_.push_back({.kind = Action::Kind::Start, .generation = generation});
}

void Member::stop(std::uint32_t generation) {
  if (leaving_ || generation < newest_) {
    return;
  }
  newest_ = generation;
  if (state_ == State::Running) {
    stop_workers(SIGTERM);
  } else if (state_ != State::Stopping) {
    state_ = State::Waiting;
    send({.kind = Report::Kind::Stopped, .generation = generation, .causes = causes_});
  }
}

void Member::worker_failed(const Cause& cause) {
  if (state_ != State::Running) {
    return;
  }
  if (!leaving_) {
    send({.kind = Report::Kind::Failed, .generation = generation_.number, .causes = {cause}});
  }
  stop_workers(SIGTERM);
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
  send(
      {.kind = well ? Report::Kind::Done : Report::Kind::Stopped, .generation = generation_.number, .causes = causes_});
}

void Member::leave(Outcome outcome, int signal) {
  if (leaving_) {
    return;
  }
  leaving_ = true;
  outcome_ = std::move(outcome);
  if (state_ == State::Running || state_ == State::Stopping) {
    stop_workers(signal);
    return;
  }
  state_ = State::Left;
  actions_.push_back({.kind = Action::Kind::Exit, .outcome = outcome_});
}

void Member::coordinator_lost(const std::string& reason) {
  leave({to_int(ExitCode::Unavailable), {}, reason}, SIGTERM);
}

void Member::interrupted(int signal) {
  if (leaving_ || state_ == State::Left) {
    return;
  }
  interrupted_ = true;
  send({.kind = Report::Kind::Leave});
  constexpr int kSignalBase = 128;
  leave({kSignalBase + signal, {}, ""}, signal);
}

std::string Member::fingerprint() const {
  return fmt::format("{}g{}n{}l{}c{}", static_cast<int>(state_), generation_.number, newest_, leaving_, causes_.size());
}

}  // namespace rollcall::elastic
