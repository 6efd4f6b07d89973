#include "trainer/distributed/algorithms/plan.h"

namespace rollcall::process_group {
namespace {

constexpr std::size_t kScratchAlignment = 64;  // a cache line

}  // namespace

StepIndex PlanBuilder::add(const Step& step) {
  plan_.steps.push_back(step);
  return static_cast<StepIndex>(plan_.steps.size()) - 1;
}

StepIndex PlanBuilder::send(std::uint32_t peer, Location source, std::size_t bytes, After after) {
  if (bytes == 0) {
    return kNoStep;
  }
  return add({.action = Action::Send,
              .peer = peer,
              .message = sent_.at(peer)++,
              .source = source,
              .target = {},
              .bytes = bytes,
              .after = after});
}

StepIndex PlanBuilder::receive(std::uint32_t peer, Location target, std::size_t bytes, After after) {
  if (bytes == 0) {
    return kNoStep;
  }
  return add({.action = Action::Receive,
              .peer = peer,
              .message = received_.at(peer)++,
              .source = {},
              .target = target,
              .bytes = bytes,
              .after = after});
}

StepIndex PlanBuilder::combine(Location target, Location source, std::size_t bytes, After after) {
  if (bytes == 0) {
    return kNoStep;
  }
  return add({.action = Action::Combine, .source = source, .target = target, .bytes = bytes, .after = after});
}

StepIndex PlanBuilder::copy(Location target, Location source, std::size_t bytes, After after) {
  if (bytes == 0) {
    return kNoStep;
  }
  return add({.action = Action::Copy, .source = source, .target = target, .bytes = bytes, .after = after});
}

StepIndex PlanBuilder::copy_from(std::uint32_t peer, Location target, std::size_t offset, std::size_t bytes,
                                 After after) {
  const StepIndex step = copy(target, Location{Area::PeerSharedMemory, offset}, bytes, after);
  return of_peer(step, peer);
}

StepIndex PlanBuilder::combine_from(std::uint32_t peer, Location target, std::size_t offset, std::size_t bytes,
                                    After after) {
  const StepIndex step = combine(target, Location{Area::PeerSharedMemory, offset}, bytes, after);
  return of_peer(step, peer);
}

StepIndex PlanBuilder::of_peer(StepIndex step, std::uint32_t peer) {
  if (step != kNoStep) {
    plan_.steps[static_cast<std::size_t>(step)].peer = peer;
  }
  return step;
}

void PlanBuilder::send_word(std::uint32_t peer, StepIndex after) {
  send(peer, Location{Area::Words, 0}, sizeof(Word), {after, kNoStep});
}

StepIndex PlanBuilder::receive_word(std::uint32_t peer) {
  return receive(peer, Location{Area::Words, (1 + peer) * sizeof(Word)}, sizeof(Word));
}

void PlanBuilder::agree_on(Word word) {
  plan_.agreed = word;
  plan_.words = 1 + sent_.size();
}

StepIndex PlanBuilder::join(StepIndex one, StepIndex other) {
  if (one == kNoStep || other == kNoStep) {
    return one == kNoStep ? other : one;
  }
  return add({.action = Action::Copy, .source = {}, .target = {}, .bytes = 0, .after = {one, other}});
}

Location PlanBuilder::scratch(std::size_t bytes) {
  const Location place{Area::Scratch, plan_.scratch_bytes};
  plan_.scratch_bytes += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  return place;
}

}  // namespace rollcall::process_group
