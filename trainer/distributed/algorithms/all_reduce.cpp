#include <bit>

#include "trainer/distributed/algorithms/algorithms.h"
#include "trainer/distributed/algorithms/segments.h"
#include "trainer/distributed/algorithms/shared_memory.h"

namespace rollcall::process_group {
namespace {

/// Ranks beyond a power of two send their data to a partner before and receive the result from it afterwards.
struct Fold {
  explicit Fold(const PlanContext& context)
      : members(std::bit_floor(context.world_size)), extra(context.world_size - members) {}

  std::uint32_t members;
  std::uint32_t extra;
};

/// Calls `among_members(builder, after)` on the ranks below the power of two. `after` is the step that completes this
/// rank's data; the call returns the step that completes the result.
template <typename AmongMembers>
Plan folded(const PlanContext& context, std::size_t bytes, const AmongMembers& among_members) {
  const Fold fold(context);
  PlanBuilder builder(context.world_size);
  if (context.rank >= fold.members) {
    const std::uint32_t partner = context.rank - fold.members;
    const StepIndex sent = builder.send(partner, kData, bytes);
    builder.receive(partner, kData, bytes, {sent, kNoStep});
    return std::move(builder).take();
  }
  StepIndex ready = kNoStep;
  if (context.rank < fold.extra) {
    const Location other = builder.scratch(bytes);
    const StepIndex received = builder.receive(context.rank + fold.members, other, bytes);
    ready = builder.combine(kData, other, bytes, {received, kNoStep});
  }
  ready = among_members(builder, fold, ready);
  if (context.rank < fold.extra) {
    builder.send(context.rank + fold.members, kData, bytes, {ready, kNoStep});
  }
  return std::move(builder).take();
}

/// Recursive doubling: log2 N rounds in which partners exchange all data.
Plan recursive_doubling(const PlanContext& context, std::size_t bytes) {
  return folded(context, bytes, [&](PlanBuilder& builder, const Fold& fold, StepIndex ready) {
    for (std::uint32_t distance = 1; distance < fold.members; distance *= 2) {
      const std::uint32_t peer = context.rank ^ distance;
      const Location other = builder.scratch(bytes);
      const StepIndex sent = builder.send(peer, kData, bytes, {ready, kNoStep});
      const StepIndex received = builder.receive(peer, other, bytes);
      ready = builder.combine(kData, other, bytes, {sent, received});
    }
    return ready;
  });
}

/// A round of halving: the parts that this rank and its partner keep.
struct Halves {
  Range mine;
  Range theirs;
  std::uint32_t peer;
};

/// Returns the rounds of halving for this rank: after the last one it has chunk `rank` of `members`.
std::vector<Halves> halve(const PlanContext& context, std::uint32_t members, std::size_t bytes) {
  const Chunks chunks(bytes, context.element_bytes, members);
  std::vector<Halves> rounds;
  std::uint32_t first = 0;
  for (std::uint32_t distance = members / 2; distance >= 1; distance /= 2) {
    const Range lower = chunks.span(first, first + distance);
    const Range upper = chunks.span(first + distance, first + 2 * distance);
    const bool keeps_upper = (context.rank & distance) != 0;
    rounds.push_back(Halves{keeps_upper ? upper : lower, keeps_upper ? lower : upper, context.rank ^ distance});
    first += keeps_upper ? distance : 0;
  }
  return rounds;
}

/// Rabenseifner's algorithm: a reduce-scatter by halving, then an all-gather by doubling.
Plan halving_doubling(const PlanContext& context, std::size_t bytes) {
  return folded(context, bytes, [&](PlanBuilder& builder, const Fold& fold, StepIndex ready) {
    const std::vector<Halves> rounds = halve(context, fold.members, bytes);
    std::vector<StepIndex> given_away;
    for (const Halves& round : rounds) {
      const Location other = builder.scratch(round.mine.bytes);
      given_away.push_back(builder.send(round.peer, kData + round.theirs.begin, round.theirs.bytes, {ready, kNoStep}));
      const StepIndex received = builder.receive(round.peer, other, round.mine.bytes);
      const StepIndex combined = builder.combine(kData + round.mine.begin, other, round.mine.bytes, {received, ready});
      ready = combined == kNoStep ? ready : combined;
    }
    // In reverse order each round returns the result for the part that was sent.
    for (std::size_t i = rounds.size(); i-- > 0;) {
      builder.send(rounds[i].peer, kData + rounds[i].mine.begin, rounds[i].mine.bytes, {ready, kNoStep});
      const StepIndex received = builder.receive(rounds[i].peer, kData + rounds[i].theirs.begin, rounds[i].theirs.bytes,
                                                 {given_away[i], kNoStep});
      ready = builder.join(ready, received);
    }
    return ready;
  });
}

/// A ring reduce-scatter, then a ring all-gather.
Plan ring_all_reduce(const PlanContext& context, std::size_t bytes) {
  const Ring ring(context);
  const Chunks chunks(bytes, context.element_bytes, ring.size);
  const Segments segments(context, chunks.largest());
  PlanBuilder builder(context.world_size);
  const std::size_t slot_count = 2 * context.depth;
  const Location slots = builder.scratch(slot_count * segments.bytes());
  std::vector<StepIndex> slot_user(slot_count, kNoStep);  // the last combine that read the slot
  std::vector<StepIndex> ready(context.depth, kNoStep);   // by lane: the step whose result the next round forwards
  std::vector<StepIndex> sent(ring.size * context.depth,
                              kNoStep);  // by chunk and lane: the send that must end before the data is overwritten
  std::size_t next_slot = 0;
  for_each_in_ring(
      context, segments.count(), 2 * (ring.size - 1), [&](std::uint32_t round, std::size_t number, std::size_t lane) {
        const bool reduces = round < ring.size - 1;
        const std::uint32_t outgoing = reduces ? ring.reduced(round) : ring.gathered(round - (ring.size - 1));
        const std::uint32_t incoming = ring.before(outgoing);
        const Range out = segments.of(chunks[outgoing], number);
        const Range in = segments.of(chunks[incoming], number);
        const StepIndex before = round == 0 ? kNoStep : ready[lane];
        StepIndex& out_sent = sent[outgoing * context.depth + lane];
        out_sent = builder.send(ring.right(), kData + out.begin, out.bytes, {before, kNoStep});
        if (!reduces) {
          const StepIndex in_sent = sent[incoming * context.depth + lane];
          ready[lane] = builder.receive(ring.left(), kData + in.begin, in.bytes, {in_sent, kNoStep});
          return;
        }
        const std::size_t slot = next_slot++ % slot_count;
        const Location place = slots + slot * segments.bytes();
        const StepIndex received = builder.receive(ring.left(), place, in.bytes, {slot_user[slot], kNoStep});
        ready[lane] = slot_user[slot] = builder.combine(kData + in.begin, place, in.bytes, {received, kNoStep});
      });
  return std::move(builder).take();
}

}  // namespace

Plan plan_all_reduce(const PlanContext& context, std::size_t bytes) {
  if (context.world_size == 1) {
    return {};
  }
  if (uses_shared_memory(context, bytes)) {
    return shared_memory_all_reduce(context, bytes);
  }
  if (bytes <= context.small_bytes) {
    return recursive_doubling(context, bytes);
  }
  return bytes <= context.medium_bytes ? halving_doubling(context, bytes) : ring_all_reduce(context, bytes);
}

}  // namespace rollcall::process_group
