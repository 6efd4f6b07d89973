#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/elastic/coordinator.h"

// How a coordinator replaces one that was lost, and what makes that possible.

namespace rollcall::elastic {

Coordinator::Coordinator(Policy policy, NewNonce new_nonce, Generation last, Clock::time_point now)
    : policy_(std::move(policy)),
      new_nonce_(std::move(new_nonce)),
      phase_(Phase::Reuniting),
      generation_(std::move(last)),
      began_(now),
      deadline_(now + policy_.reunion_timeout) {}

/// Continues the run once all nodes except for the lost one are connected, or the time for that is over.
void Coordinator::reunite(bool time_is_up, Clock::time_point now) {
  const std::vector<Node> here = nodes_here();
  const std::size_t came = count_in(generation_, here);
  const bool all_are_there = came + 1 >= generation_.world.size() && here.size() >= policy_.min_nodes;
  if (!all_are_there && !time_is_up) {
    return;
  }
  deadline_.reset();
  const Node& before = generation_.world.at(generation_.coordinator);
  if (!may_succeed(generation_, here) || here.size() < policy_.min_nodes) {
    end({to_int(ExitCode::Unavailable),
         {},
         fmt::format("the coordinator on {} was lost, and {} of {} nodes reconnected: {}", before.host, came,
                     generation_.world.size(),
                     may_succeed(generation_, here)
                         ? fmt::format("--nnodes requires at least {}", policy_.min_nodes)
                         : "more than half must reconnect, so that the run cannot split into two")});
    return;
  }
  succeed(now);
}

void Coordinator::succeed(Clock::time_point now) {
  const std::string before = generation_.world.at(generation_.coordinator).host;
  restarts_ = generation_.restarts;
  newest_number_ = generation_.number + 1;  // the lost one may have formed a generation that no node here knows
  for (const Electorate& each : generation_.unsettled) {
    quorum_.formed(each.generation, each.nodes);
  }
  quorum_.formed(generation_.number, generation_.world);
  quorum_.knows(generation_.world.at(generation_.coordinator), generation_.number);
  std::vector<MemberId> fenced;
  for (auto& [id, member] : members_) {
    const std::optional<std::uint32_t> group_rank = group_rank_in(generation_, member.join_request.node);
    const std::optional<Generation>& last = member.join_request.last;
    quorum_.knows(member.join_request.node, last ? last->number : 0);
    if (group_rank) {
      member.group_rank = *group_rank;
      become(member, State::Running);  // until it reports otherwise
    } else if (last && group_rank_in(*last, member.join_request.node)) {
      fenced.push_back(id);
    }
  }
  for (const MemberId id : fenced) {
    order(id, {.kind = Order::Kind::End,
               .outcome = {to_int(ExitCode::Unavailable), {}, "the run has continued without this node"}});
    remove(id, Cause::Kind::NodeLost, "was no longer in a generation", now);
  }
  Cause cause{.kind = Cause::Kind::NodeLost, .host = before, .group_rank = generation_.coordinator, .pid = -1};
  cause.message = "the coordinator's agent was lost";
  causes_.add_node(std::move(cause), now);
  for (auto& [id, member] : members_) {
    member.join_request.last.reset();
    order_wait(id);  // some nodes know an older generation only
  }
  changed_ = true;
  stop_generation("the coordinator on " + before + " was lost", /*lost=*/true, now);
}

void Coordinator::order_wait(MemberId id) {
  Generation known = generation_;
  known.group_rank =
      group_rank_in(known, members_.at(id).join_request.node).value_or(static_cast<std::uint32_t>(known.world.size()));
  order(id, {.kind = Order::Kind::Wait, .generation = std::move(known)});
}

/// Ends this coordinator. Where the other nodes can continue with a successor, it sends them nothing: they fail over
/// when this process ends.
void Coordinator::own_agent_left(const std::string& reason) {
  const std::vector<Node> others = nodes_here();
  const bool can_go_on =
      phase_ == Phase::Reuniting ||  // all nodes of the generation fail over to the next one
      (others.size() >= policy_.min_nodes && generation_.number > 0 && may_succeed(generation_, others));
  if (can_go_on) {
    phase_ = Phase::Ended;
    handed_over_ = true;
    deadline_.reset();
  } else {
    end({to_int(ExitCode::Unavailable), {}, reason});
  }
}

std::optional<Node> Coordinator::node_of(MemberId id) const {
  const auto found = members_.find(id);
  return found == members_.end() ? std::nullopt : std::optional(found->second.join_request.node);
}

/// Returns whether this node is in `generation`. A coordinator never continues a generation that its own node was not
/// in, whatever other nodes report.
bool Coordinator::has_own_node(const Generation& generation) const {
  const auto own = std::ranges::find_if(members_, [](const auto& entry) { return entry.second.order == 1; });
  return own != members_.end() && group_rank_in(generation, own->second.join_request.node).has_value();
}

std::vector<Node> Coordinator::nodes_here(std::optional<State> state) const {
  std::vector<Node> nodes;
  for (const auto& [id, member] : members_) {
    if (!state || member.state == *state) {
      nodes.push_back(member.join_request.node);
    }
  }
  return nodes;
}

}  // namespace rollcall::elastic
