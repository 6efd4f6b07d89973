#include "trainer/distributed/algorithms/execution.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace rollcall::process_group {

Execution::Execution(const Plan& plan, const Areas& areas, const Combining& combining, std::uint32_t operation,
                     std::size_t depth)
    : plan_(plan),
      areas_(areas),
      combining_(combining),
      operation_(operation),
      depth_(depth),
      done_(plan.steps.size(), false),
      left_(plan.steps.size()),
      words_(plan.words) {
  if (!words_.empty()) {
    words_.front() = plan.agreed;
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Action action = plan.steps[i].action;
    Lane& lane = action == Action::Send ? sends_ : action == Action::Receive ? receives_ : local_;
    lane.steps.push_back(static_cast<StepIndex>(i));
  }
}

std::byte* Execution::writable(const Location& place) {
  switch (place.area) {
    case Area::Output:
      return areas_.output + place.offset;
    case Area::SharedMemory:
      return areas_.shared_memory + place.offset;
    case Area::Words:
      return reinterpret_cast<std::byte*>(words_.data()) + place.offset;
    default:
      return areas_.scratch + place.offset;
  }
}

const std::byte* Execution::readable(const Step& step) {
  switch (step.source.area) {
    case Area::Input:
      return areas_.input + step.source.offset;
    case Area::PeerSharedMemory:
      return areas_.peer_shared_memory.at(step.peer) + step.source.offset;
    default:
      return writable(step.source);
  }
}

void Execution::check_word(const Step& step) {
  if (step.target.area == Area::Words && words_.at(1 + step.peer) != plan_.agreed) {
    disagreeing_peer_ = step.peer;
    failed_ = true;
  }
}

bool Execution::may_begin(StepIndex index) const {
  const After& after = plan_.steps[static_cast<std::size_t>(index)].after;
  return std::all_of(after.begin(), after.end(), [this](StepIndex earlier) {
    return earlier == kNoStep || done_[static_cast<std::size_t>(earlier)];
  });
}

bool Execution::begin_messages(Transport& transport, Lane& lane, std::vector<UnderWay>& under_way) {
  bool moved = false;
  while (lane.next < lane.steps.size() && under_way.size() < depth_ && may_begin(lane.steps[lane.next])) {
    const StepIndex index = lane.steps[lane.next++];
    const Step& step = plan_.steps[static_cast<std::size_t>(index)];
    const MessageId name{operation_, step.message};
    const Request request = step.action == Action::Send
                                ? transport.send(step.peer, name, readable(step), step.bytes)
                                : transport.receive(step.peer, name, writable(step.target), step.bytes);
    under_way.push_back(UnderWay{request, index});
    moved = true;
  }
  return moved;
}

bool Execution::collect(Transport& transport, std::vector<UnderWay>& under_way) {
  const std::size_t before = under_way.size();
  std::erase_if(under_way, [&](const UnderWay& message) {
    const RequestState state = message.request == nullptr ? RequestState::Done : transport.test(message.request);
    failed_ = failed_ || state == RequestState::Failed;
    if (state == RequestState::Done) {
      check_word(plan_.steps[static_cast<std::size_t>(message.step)]);
      done_[static_cast<std::size_t>(message.step)] = true;
      left_ -= 1;
    }
    return state != RequestState::UnderWay;
  });
  return under_way.size() != before;
}

bool Execution::has_local_work() const {
  return local_.next < local_.steps.size() && may_begin(local_.steps[local_.next]);
}

bool Execution::run_local_step() {
  if (!has_local_work()) {
    return false;
  }
  const StepIndex index = local_.steps[local_.next++];
  const Step& step = plan_.steps[static_cast<std::size_t>(index)];
  if (step.action == Action::Combine) {
    combining_.function(writable(step.target), readable(step), step.bytes / combining_.element_bytes);
  } else if (step.bytes > 0 && writable(step.target) != readable(step)) {
    std::memcpy(writable(step.target), readable(step), step.bytes);
  }
  done_[static_cast<std::size_t>(index)] = true;
  left_ -= 1;
  return true;
}

bool Execution::begin(Transport& transport) {
  begin_messages(transport, receives_, receiving_);
  begin_messages(transport, sends_, sending_);
  const bool has_received = collect(transport, receiving_);  // messages that a faster rank sent earlier
  const bool may_send_more = collect(transport, sending_) && sends_.next < sends_.steps.size();
  return !has_received && !may_send_more && !has_local_work();
}

RequestState Execution::advance(Transport& transport) {
  for (bool moved = true; moved && !failed_;) {
    moved = collect(transport, receiving_);
    moved = begin_messages(transport, receives_, receiving_) || moved;
    moved = collect(transport, sending_) || moved;
    moved = begin_messages(transport, sends_, sending_) || moved;
    moved = run_local_step() || moved;  // one step: messages that it makes ready are sent before the next
  }
  if (failed_) {
    return RequestState::Failed;
  }
  return left_ == 0 ? RequestState::Done : RequestState::UnderWay;
}

std::vector<std::uint32_t> Execution::awaited_peers() const {
  std::set<std::uint32_t> peers;
  for (const UnderWay& message : receiving_) {
    peers.insert(plan_.steps[static_cast<std::size_t>(message.step)].peer);
  }
  return {peers.begin(), peers.end()};
}

}  // namespace rollcall::process_group
