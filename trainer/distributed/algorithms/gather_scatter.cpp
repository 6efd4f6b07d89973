#include "trainer/distributed/algorithms/algorithms.h"
#include "trainer/distributed/algorithms/segments.h"
#include "trainer/distributed/algorithms/shared_memory.h"

namespace rollcall::process_group {
namespace {

/// Bruck's algorithm, with ceil(log2 N) rounds for any N: after round i this rank has the blocks of 2^i ranks,
/// beginning with its own; at the end they are rotated into rank order.
Plan bruck_all_gather(const PlanContext& context, std::size_t bytes) {
  const std::uint32_t size = context.world_size;
  PlanBuilder builder(size);
  const Location turned = builder.scratch(size * bytes);
  StepIndex ready = builder.copy(turned, kInput, bytes);
  for (std::uint32_t held = 1; held < size; held *= 2) {
    const std::uint32_t blocks = std::min(held, size - held);
    builder.send((context.rank + size - held) % size, turned, blocks * bytes, {ready, kNoStep});
    const StepIndex received = builder.receive((context.rank + held) % size, turned + held * bytes, blocks * bytes);
    ready = builder.join(ready, received);
  }
  const std::size_t until_end = (size - context.rank) * bytes;
  builder.copy(kOutput + context.rank * bytes, turned, until_end, {ready, kNoStep});
  builder.copy(kOutput, turned + until_end, context.rank * bytes, {ready, kNoStep});
  return std::move(builder).take();
}

Plan ring_all_gather(const PlanContext& context, std::size_t bytes) {
  const Ring ring(context);
  const Segments segments(context, bytes);
  PlanBuilder builder(context.world_size);
  std::vector<StepIndex> ready(context.depth, kNoStep);  // by lane: what the next round forwards
  for_each_in_ring(
      context, segments.count(), ring.size - 1, [&](std::uint32_t round, std::size_t number, std::size_t lane) {
        const std::uint32_t outgoing = ring.gathered(round);
        const Range part = segments.of(Range{0, bytes}, number);
        const Location source = round == 0 ? kInput + part.begin : kOutput + (outgoing * bytes + part.begin);
        builder.send(ring.right(), source, part.bytes, {round == 0 ? kNoStep : ready[lane], kNoStep});
        ready[lane] = builder.receive(ring.left(), kOutput + (ring.before(outgoing) * bytes + part.begin), part.bytes);
      });
  // Last, so that the network is busy meanwhile.
  builder.copy(kOutput + context.rank * bytes, kInput, bytes);
  return std::move(builder).take();
}

}  // namespace

Plan plan_all_gather(const PlanContext& context, std::size_t bytes) {
  if (context.world_size == 1) {
    PlanBuilder builder(1);
    builder.copy(kOutput, kInput, bytes);
    return std::move(builder).take();
  }
  if (uses_shared_memory(context, bytes * context.world_size)) {
    return shared_memory_all_gather(context, bytes);
  }
  return bytes <= context.small_bytes ? bruck_all_gather(context, bytes) : ring_all_gather(context, bytes);
}

namespace {

/// Every rank sends each other rank its part: one round, with the traffic of a ring.
Plan direct_reduce_scatter(const PlanContext& context, std::size_t bytes) {
  PlanBuilder builder(context.world_size);
  const StepIndex own = builder.copy(kOutput, kInput + context.rank * bytes, bytes);
  StepIndex combined = own;
  for (std::uint32_t distance = 1; distance < context.world_size; ++distance) {
    const std::uint32_t to = (context.rank + distance) % context.world_size;
    const std::uint32_t from = (context.rank + context.world_size - distance) % context.world_size;
    builder.send(to, kInput + to * bytes, bytes);
    const Location other = builder.scratch(bytes);
    const StepIndex received = builder.receive(from, other, bytes);
    combined = builder.combine(kOutput, other, bytes, {received, combined});
  }
  return std::move(builder).take();
}

/// Sums go around the ring, and each rank adds its part; the last one arrives in Output.
Plan ring_reduce_scatter(const PlanContext& context, std::size_t bytes) {
  const Ring ring(context);
  const Segments segments(context, bytes);
  PlanBuilder builder(context.world_size);
  const std::size_t slot_count = 2 * context.depth;
  const Location slots = builder.scratch(slot_count * segments.bytes());
  std::vector<StepIndex> slot_sent(slot_count, kNoStep);
  std::vector<Location> partial(context.depth, kInput);  // by lane: what the next round forwards
  std::vector<std::size_t> partial_slot(context.depth, slot_count);
  std::vector<StepIndex> ready(context.depth, kNoStep);
  std::size_t next_slot = 0;
  for_each_in_ring(
      context, segments.count(), ring.size - 1, [&](std::uint32_t round, std::size_t number, std::size_t lane) {
        const std::uint32_t outgoing = ring.reduced(round);
        const std::uint32_t incoming = ring.before(outgoing);
        const Range part = segments.of(Range{0, bytes}, number);
        if (round == 0) {
          builder.send(ring.right(), kInput + (outgoing * bytes + part.begin), part.bytes);
        } else {
          slot_sent[partial_slot[lane]] = builder.send(ring.right(), partial[lane], part.bytes, {ready[lane], kNoStep});
        }
        const bool last = round == ring.size - 2;
        Location target = kOutput + part.begin;
        StepIndex free = kNoStep;
        if (!last) {
          const std::size_t slot = next_slot++ % slot_count;
          target = slots + slot * segments.bytes();
          free = slot_sent[slot];
          partial_slot[lane] = slot;
        }
        const StepIndex received = builder.receive(ring.left(), target, part.bytes, {free, kNoStep});
        partial[lane] = target;
        ready[lane] =
            builder.combine(target, kInput + (incoming * bytes + part.begin), part.bytes, {received, kNoStep});
      });
  return std::move(builder).take();
}

}  // namespace

Plan plan_reduce_scatter(const PlanContext& context, std::size_t bytes) {
  if (context.world_size == 1) {
    PlanBuilder builder(1);
    builder.copy(kOutput, kInput, bytes);
    return std::move(builder).take();
  }
  if (uses_shared_memory(context, bytes * context.world_size)) {
    return shared_memory_reduce_scatter(context, bytes);
  }
  return bytes <= context.small_bytes ? direct_reduce_scatter(context, bytes) : ring_reduce_scatter(context, bytes);
}

}  // namespace rollcall::process_group
