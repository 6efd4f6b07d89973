// Plans of a broadcast: a binomial tree for short messages, a chain of segments for long ones.
#include "trainer/distributed/algorithms/algorithms.h"
#include "trainer/distributed/algorithms/segments.h"

namespace rollcall::process_group {
namespace {

/// Positions of ranks counted from the root.
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

/// Returns the distance to the parent in a binomial tree: the lowest bit of the position; beyond the size for the root.
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

}  // namespace

Plan plan_broadcast(const PlanContext& context, std::size_t bytes, std::uint32_t root) {
  const bool one_hop = context.world_size <= 2;
  return bytes <= context.small_bytes || one_hop ? tree_broadcast(context, bytes, root)
                                                 : chain_broadcast(context, bytes, root);
}

}  // namespace rollcall::process_group
