#include "runtime/elastic/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "runtime/base/text.h"

namespace rollcall::elastic {
namespace {

constexpr std::size_t kLongestHistory = 16;

/// Returns what distinguishes live agents.
std::tuple<std::uint16_t, std::string, std::string> node_key(const Node& node) {
  return {node.port, node.address, node.host};
}

int exit_code_of(const Cause& cause) { return cause.exit_code != 0 ? cause.exit_code : to_int(ExitCode::Unavailable); }

}  // namespace

void Coordinator::handle_report(MemberId id, const Report& report, Clock::time_point now) {
  if (report.kind == Report::Kind::Join) {
    join(id, report, now);
    return;
  }
  const auto found = members_.find(id);
  if (found == members_.end() || phase_ == Phase::Ended) {
    return;  // fenced, or never a member
  }
  Member& member = found->second;
  if (report.kind == Report::Kind::Leave) {
    quorum_.died(member.join_request.node);  // it does not fail over
    remove(id, Cause::Kind::NodeLeft, "was asked to exit", now);
    return;
  }
  quorum_.knows(member.join_request.node, report.generation);
  const bool of_this = member.state != State::Waiting && report.generation == generation_.number;
  if (!of_this || phase_ == Phase::Gathering || phase_ == Phase::Reuniting) {
    return;
  }
  switch (report.kind) {
    case Report::Kind::Failed:
    case Report::Kind::Stopped:
      note(member, report.causes, now);
      if (report.kind == Report::Kind::Stopped) {
        become(member, State::Stopped);
        member.port = report.port;
      }
      if (phase_ ==
          Phase::Running) {  // later failures are effects of the stop; a worker group that stops unasked had a failure
        failed_ = true;
        stop_generation("a worker failed", /*lost=*/true, now);
      }
      consider_stopped(now);
      break;
    case Report::Kind::Done:
      if (member.state == State::Running) {
        become(member, State::Done);
      }
      if (phase_ == Phase::Running && !any_member(State::Running)) {
        end({});
      }
      break;
    default:
      break;
  }
}

std::string Coordinator::why_refused(const JoinRequest& join_request) const {
  if (phase_ == Phase::Ended) {
    return "the run has ended";
  }
  if (join_request.run_id != policy_.run_id) {
    return fmt::format("the run at this endpoint is {}, not {}", policy_.run_id.substr(0, 80),
                       join_request.run_id.substr(0, 80));
  }
  if (join_request.min_nodes != policy_.min_nodes || join_request.max_nodes != policy_.max_nodes) {
    return fmt::format("this run has --nnodes={}:{}, not {}:{}", policy_.min_nodes, policy_.max_nodes,
                       join_request.min_nodes, join_request.max_nodes);
  }
  if (policy_.max_nodes == 1 && !members_.empty()) {
    return fmt::format("the run at this endpoint has a single node, which has already joined: {}",
                       members_.begin()->second.join_request.node.host.substr(0, 80));
  }
  if (phase_ != Phase::Reuniting && join_request.last && group_rank_in(*join_request.last, join_request.node)) {
    return "the run has continued without this node";
  }
  if (join_request.heartbeat_timeout != policy_.heartbeat_timeout) {
    return fmt::format("this run has --rdzv-conf=heartbeat_timeout={:g}, not {:g}",
                       std::chrono::duration<double>(policy_.heartbeat_timeout).count(),
                       std::chrono::duration<double>(join_request.heartbeat_timeout).count());
  }
  if (join_request.node.port != 0 && node_keys_.contains(node_key(join_request.node))) {
    return fmt::format("this node has already joined: {}", join_request.node.host);
  }
  for (const auto& [id, member] : members_) {
    if (join_request.node_rank && member.join_request.node_rank == join_request.node_rank) {
      return fmt::format("node rank {} is already taken by {}", *join_request.node_rank,
                         member.join_request.node.host.substr(0, 80));
    }
  }
  return "";
}

void Coordinator::join(MemberId id, const Report& report, Clock::time_point now) {
  if (members_.contains(id) || gone_.contains(id) || !report.join_request) {
    return;
  }
  if (std::string reason = why_refused(*report.join_request); !reason.empty()) {
    order(id, {.kind = Order::Kind::Refused, .reason = std::move(reason)});
    return;
  }
  members_.emplace(id, Member{*report.join_request, State::Waiting, report.port, ++arrivals_});
  ++in_state_[State::Waiting];
  node_keys_.insert(node_key(report.join_request->node));
  quorum_.came(report.join_request->node);
  const std::optional<Generation>& last = report.join_request->last;
  if (phase_ == Phase::Reuniting && last && last->number > generation_.number && last->run == generation_.run &&
      has_own_node(*last)) {
    generation_ = *last;
  }
  if (phase_ != Phase::Reuniting) {
    members_.at(id).join_request.last.reset();  // those of thousands of members would fill the memory
  }
  order_wait(id);
  if (phase_ == Phase::Reuniting) {
    reunite(false, now);
  } else if (phase_ == Phase::Gathering) {
    gather(now);
  } else if (phase_ == Phase::Running && generation_.world.size() < policy_.max_nodes && !any_member(State::Done)) {
    stop_generation(report.join_request->node.host + " joined", /*lost=*/false, now);
  }
}

void Coordinator::become(Member& member, State state) {
  --in_state_[member.state];
  ++in_state_[state];
  member.state = state;
}

bool Coordinator::any_member(State state) const {
  const auto found = in_state_.find(state);
  return found != in_state_.end() && found->second > 0;
}

void Coordinator::note(const Member& member, const std::vector<Cause>& causes, Clock::time_point now) {
  for (Cause cause : causes) {
    if (cause.local_rank < member.join_request.node.workers) {
      cause.group_rank = member.group_rank;
      causes_.add(std::move(cause), now);
    }
  }
}

Outcome Coordinator::failure(std::string reason) const {
  Outcome outcome{to_int(ExitCode::Unavailable), causes_.first(), std::move(reason)};
  if (outcome.cause) {
    outcome.exit_code = exit_code_of(*outcome.cause);
  }
  return outcome;
}

void Coordinator::lost(MemberId id, const std::string& reason, bool dead, Clock::time_point now) {
  if (const auto found = members_.find(id); dead && found != members_.end()) {
    quorum_.died(found->second.join_request.node);
  }
  remove(id, Cause::Kind::NodeLost, reason, now);
}

void Coordinator::remove(MemberId id, Cause::Kind kind, const std::string& reason, Clock::time_point now) {
  const auto found = members_.find(id);
  if (found == members_.end()) {
    return;
  }
  const Member member = found->second;
  members_.erase(found);
  node_keys_.erase(node_key(member.join_request.node));
  --in_state_[member.state];
  gone_.insert(id);
  if (phase_ == Phase::Ended) {
    return;
  }
  if (member.order == 1) {
    own_agent_left(fmt::format("the coordinator on {} {}", member.join_request.node.host, reason));
    return;
  }
  if (phase_ == Phase::Gathering && last_call_ && members_.size() < policy_.min_nodes) {
    last_call_ = false;
    deadline_ = now + policy_.join_timeout;
  }
  if (member.state == State::Waiting) {
    return;
  }
  Cause cause{.kind = kind,
              .host = member.join_request.node.host,
              .group_rank = member.group_rank,
              .pid = -1,
              .message = reason};
  causes_.add_node(std::move(cause), now);
  changed_ = true;
  const bool lost = kind != Cause::Kind::NodeLeft;
  const std::string what = member.join_request.node.host + (lost ? " was lost" : " left");
  if (phase_ == Phase::Running) {
    stop_generation(what, lost, now);
  } else if (phase_ == Phase::Stopping && lost) {
    order_stop(what, lost);  // workers that leave in good order must not wait for that node
  }
  consider_stopped(now);
}

void Coordinator::stop_generation(const std::string& reason, bool lost, Clock::time_point now) {
  phase_ = Phase::Stopping;
  deadline_ = now + policy_.stop_timeout;
  history_.push_back({generation_.number, reason, now});
  if (history_.size() > kLongestHistory) {
    history_.erase(history_.begin());
  }
  order_stop(reason, lost);
}

void Coordinator::order_stop(const std::string& reason, bool lost) {
  for (const auto& [id, member] : members_) {
    if (member.state != State::Waiting && member.state != State::Stopped) {
      Generation stopped;
      stopped.number = generation_.number;
      order(id, {.kind = Order::Kind::Stop, .generation = std::move(stopped), .reason = reason, .lost = lost});
    }
  }
}

void Coordinator::consider_stopped(Clock::time_point now) {
  if (phase_ != Phase::Stopping || any_member(State::Running) || any_member(State::Done)) {
    return;
  }
  const bool fixed_size = policy_.min_nodes == policy_.max_nodes;
  const bool counts = changed_ ? fixed_size : failed_;  // workers fail when a node is lost
  const bool soon = now - began_ < policy_.fruitful;
  fruitless_ = !soon ? 0 : fruitless_ + (failed_ || changed_ ? 1 : 0);  // a node that joins repeatedly is not progress
  for (auto& [id, member] : members_) {
    become(member, State::Waiting);
  }
  if (const auto first = causes_.first(); first && first->exit_code == to_int(ExitCode::Interrupted)) {
    end(failure("the program asks to be restarted later"));  // its work is saved; a restart here would get no more time
    return;
  }
  if (counts && restarts_ >= policy_.max_restarts) {
    end(failure(policy_.max_restarts > 0 ? "after " + counted(restarts_, "restart") : ""));
    return;
  }
  if (fruitless_ >= policy_.give_up_after) {
    end(failure(counted(fruitless_, "consecutive generation") + " ended shortly after the start"));
    return;
  }
  restarts_ += counts ? 1 : 0;
  failed_ = changed_ = false;
  phase_ = Phase::Gathering;
  deadline_.reset();
  if (members_.size() >= policy_.min_nodes) {
    form(now);  // the remaining nodes do not wait for more
  } else {
    deadline_ = now + policy_.join_timeout;
    last_call_ = false;
  }
}

void Coordinator::gather(Clock::time_point now) {
  const std::size_t here = members_.size();
  if (here >= policy_.max_nodes || (here >= policy_.min_nodes && generation_.number > 0)) {
    form(now);
  } else if (here >= policy_.min_nodes && !last_call_) {
    last_call_ = true;
    deadline_ = now + policy_.last_call_timeout;
  } else if (!deadline_) {
    deadline_ = now + policy_.join_timeout;
  }
}

std::vector<MemberId> Coordinator::by_precedence() const {
  std::vector<MemberId> ids;
  std::ranges::transform(members_, std::back_inserter(ids), [](const auto& entry) { return entry.first; });
  // The coordinator's own agent was the first. Earlier nodes precede new ones, so that ranks change little.
  const auto key = [&](MemberId id) {
    const Member& member = members_.at(id);
    const bool was_in = member.group_rank != 0 || member.order == 1;
    return std::tuple(member.join_request.node_rank.value_or(std::numeric_limits<std::uint32_t>::max()),
                      member.order != 1, !was_in, member.group_rank, member.order);
  };
  std::ranges::sort(ids, {}, key);
  if (ids.size() > policy_.max_nodes) {  // the own agent is in every generation, whatever node ranks others request
    const auto own = std::ranges::find_if(ids, [&](MemberId id) { return members_.at(id).order == 1; });
    const auto last = ids.begin() + policy_.max_nodes - 1;
    if (own > last) {
      std::iter_swap(own, last);
    }
    ids.resize(policy_.max_nodes);
  }
  return ids;
}

void Coordinator::form(Clock::time_point now) {
  const std::vector<MemberId> ids = by_precedence();
  std::vector<Node> world;
  world.reserve(ids.size());
  for (const MemberId id : ids) {
    world.push_back(members_.at(id).join_request.node);
  }
  if (!quorum_.may_continue(world)) {
    end(failure("the nodes that do not respond could have continued without this one"));
    return;
  }
  const auto own = std::ranges::find_if(ids, [&](MemberId id) { return members_.at(id).order == 1; });
  generation_.number = ++newest_number_;
  generation_.nonce = new_nonce_();
  generation_.run = generation_.run.empty() ? generation_.nonce : generation_.run;
  generation_.restarts = restarts_;
  generation_.world = std::move(world);
  generation_.coordinator = static_cast<std::uint32_t>(own - ids.begin());
  quorum_.formed(generation_.number, generation_.world);
  quorum_.knows(generation_.world[generation_.coordinator], generation_.number);
  generation_.unsettled = quorum_.unsettled();
  generation_.address = generation_.world.front().address;
  generation_.port = members_.at(ids.front()).port;
  phase_ = Phase::Running;
  deadline_.reset();
  last_call_ = false;
  began_ = now;
  causes_.clear();
  for (std::uint32_t rank = 0; rank < ids.size(); ++rank) {
    Member& member = members_.at(ids[rank]);
    become(member, State::Running);
    member.group_rank = rank;
    generation_.group_rank = rank;
    order(ids[rank], {.kind = Order::Kind::Begin, .generation = generation_});
  }
  for (const auto& [id, member] : members_) {
    if (member.state == State::Waiting) {
      order_wait(id);
    }
  }
}

void Coordinator::end(const Outcome& outcome) {
  phase_ = Phase::Ended;
  deadline_.reset();
  for (const auto& [id, member] : members_) {
    order(id, {.kind = Order::Kind::End, .outcome = outcome});
  }
}

void Coordinator::tick(Clock::time_point now) {
  if (!deadline_ || now < *deadline_) {
    return;
  }
  deadline_.reset();
  if (phase_ == Phase::Reuniting) {
    reunite(true, now);
  } else if (phase_ == Phase::Gathering && last_call_) {
    form(now);
  } else if (phase_ == Phase::Gathering) {
    end(failure(fmt::format("only {} of at least {} nodes joined within {:g} s", members_.size(), policy_.min_nodes,
                            std::chrono::duration<double>(policy_.join_timeout).count())));
  } else if (phase_ == Phase::Stopping) {
    std::vector<MemberId> silent;
    for (const auto& [id, member] : members_) {
      if (member.state != State::Waiting && member.state != State::Stopped) {
        silent.push_back(id);
      }
    }
    for (const MemberId id : silent) {
      order(id, {.kind = Order::Kind::End,
                 .outcome = {to_int(ExitCode::Unavailable), {}, "did not stop its workers in time"}});
      remove(id, Cause::Kind::NodeLost, "did not stop its workers in time", now);
    }
  }
}

std::string Coordinator::fingerprint() const {
  if (phase_ == Phase::Ended) {
    return "ended";
  }
  std::string text = fmt::format("{}/{}/{}/{}{}{}{}", static_cast<int>(phase_), generation_.number, restarts_, failed_,
                                 changed_, last_call_, deadline_.has_value());
  for (const auto& [id, member] : members_) {
    fmt::format_to(std::back_inserter(text), ";{}:{}r{}o{}", id, static_cast<int>(member.state), member.group_rank,
                   member.order);
  }
  for (const MemberId id : gone_) {
    fmt::format_to(std::back_inserter(text), "x{}", id);
  }
  fmt::format_to(std::back_inserter(text), "w{}{}", generation_.nonce, generation_.world.size());
  return text + quorum_.fingerprint();
}

}  // namespace rollcall::elastic
