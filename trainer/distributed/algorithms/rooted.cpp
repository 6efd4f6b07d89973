// Broadcast and reduce: to and from a root, by a binomial tree where messages are short, else by a chain of segments.
#include "trainer/distributed/algorithms/algorithms.h"
#include "trainer/distributed/algorithms/segments.h"

namespace rollcall::process_group {
namespace {

/// The ranks counted from the root on.
struct Turned {
  Turned(const PlanContext& context, std::uint32_t root)
      : position((context.rank + context.world_size - root) % context.world_size),
        size(context.world_size),
        root_(root) {}

  [[nodiscard]] std::uint32_t rank_at(std::uint32_t place) const { return (place + root_) % size; }

  std::uint32_t position;
  std::uint32_t size;

 private:
  std::uint32_t root_;
};

/// The distance to the parent in a binomial tree: the lowest bit of the position; beyond the size for the root.
std::uint32_t distance_to_parent(const Turned& turned) {
  std::uint32_t distance = 1;
  while (distance < turned.size && (turned.position & distance) == 0) {
    distance *= 2;
  }
  return distance;
}

Plan tree_broadcast(const PlanContext& context, std::size_t bytes, std::uint32_t root) {
  const Turned turned(context, root);
  PlanBuilder builder(context.world_size);
  StepIndex received = kNoStep;
  std::uint32_t distance = distance_to_parent(turned);
  if (turned.position != 0) {
    received = builder.receive(turned.rank_at(turned.position - distance), kData, bytes);
  }
  for (distance /= 2; distance > 0; distance /= 2) {
    if (turned.position + distance < turned.size) {
      builder.send(turned.rank_at(turned.position + distance), kData, bytes, {received, kNoStep});
    }
  }
  return std::move(builder).take();
}

Plan chain_broadcast(const PlanContext& context, std::size_t bytes, std::uint32_t root) {
  const Turned turned(context, root);
  const Segments segments(context, bytes);
  PlanBuilder builder(context.world_size);
  for (std::size_t number = 0; number < segments.count(); ++number) {
    const Range part = segments.of(Range{0, bytes}, number);
    StepIndex received = kNoStep;
    if (turned.position > 0) {
      received = builder.receive(turned.rank_at(turned.position - 1), kData + part.begin, part.bytes);
    }
    if (turned.position + 1 < turned.size) {
      builder.send(turned.rank_at(turned.position + 1), kData + part.begin, part.bytes, {received, kNoStep});
    }
  }
  return std::move(builder).take();
}

Plan tree_reduce(const PlanContext& context, std::size_t bytes, std::uint32_t root) {
  const Turned turned(context, root);
  PlanBuilder builder(context.world_size);
  const std::uint32_t to_parent = distance_to_parent(turned);
  const bool has_children = to_parent > 1 && turned.position + 1 < turned.size;
  Place sum = kData;
  StepIndex ready = kNoStep;
  if (turned.position != 0 && has_children) {
    sum = builder.scratch(bytes);
    ready = builder.copy(sum, kData, bytes);
  }
  for (std::uint32_t distance = 1; distance < to_parent && turned.position + distance < turned.size; distance *= 2) {
    const Place other = builder.scratch(bytes);
    const StepIndex received = builder.receive(turned.rank_at(turned.position + distance), other, bytes);
    ready = builder.combine(sum, other, bytes, {received, ready});
  }
  if (turned.position != 0) {
    builder.send(turned.rank_at(turned.position - to_parent), sum, bytes, {ready, kNoStep});
  }
  return std::move(builder).take();
}

/// The farthest rank begins; each adds its own segment to what comes and passes it on towards the root.
Plan chain_reduce(const PlanContext& context, std::size_t bytes, std::uint32_t root) {
  const Turned turned(context, root);
  const Segments segments(context, bytes);
  PlanBuilder builder(context.world_size);
  const bool begins = turned.position + 1 == turned.size;
  const std::size_t slot_count = 2 * context.depth;
  const Place slots = builder.scratch(begins ? 0 : slot_count * segments.bytes());
  std::vector<StepIndex> slot_user(slot_count, kNoStep);
  for (std::size_t number = 0; number < segments.count(); ++number) {
    const Range part = segments.of(Range{0, bytes}, number);
    if (begins) {
      builder.send(turned.rank_at(turned.position - 1), kData + part.begin, part.bytes);
      continue;
    }
    StepIndex& user = slot_user[number % slot_count];
    const Place slot = slots + number % slot_count * segments.bytes();
    const StepIndex received = builder.receive(turned.rank_at(turned.position + 1), slot, part.bytes, {user, kNoStep});
    if (turned.position == 0) {
      user = builder.combine(kData + part.begin, slot, part.bytes, {received, kNoStep});
    } else {
      const StepIndex sum = builder.combine(slot, kData + part.begin, part.bytes, {received, kNoStep});
      user = builder.send(turned.rank_at(turned.position - 1), slot, part.bytes, {sum, kNoStep});
    }
  }
  return std::move(builder).take();
}

}  // namespace

Plan plan_broadcast(const PlanContext& context, std::size_t bytes, std::uint32_t root) {
  const bool one_hop = context.world_size <= 2;
  return bytes <= context.small_bytes || one_hop ? tree_broadcast(context, bytes, root)
                                                 : chain_broadcast(context, bytes, root);
}

Plan plan_reduce(const PlanContext& context, std::size_t bytes, std::uint32_t root) {
  if (context.world_size == 1) {
    return {};
  }
  return bytes <= context.small_bytes ? tree_reduce(context, bytes, root) : chain_reduce(context, bytes, root);
}

}  // namespace rollcall::process_group
