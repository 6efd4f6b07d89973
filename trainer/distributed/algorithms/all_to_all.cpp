// Plans of gather, all-to-all and barrier, which combine nothing.
#include "trainer/distributed/algorithms/algorithms.h"
#include "trainer/distributed/algorithms/shared_memory.h"

namespace rollcall::process_group {
namespace {

/// Returns the offset of each part, and then the size of all parts.
std::vector<std::size_t> offsets_of(const std::vector<std::size_t>& bytes) {
  std::vector<std::size_t> offsets{0};
  for (const std::size_t part : bytes) {
    offsets.push_back(offsets.back() + part);
  }
  return offsets;
}

}  // namespace

Plan plan_gather(const PlanContext& context, std::size_t bytes, std::uint32_t root) {
  PlanBuilder builder(context.world_size);
  if (context.rank != root) {
    builder.send(root, kInput, bytes);
    return std::move(builder).take();
  }
  builder.copy(kOutput + root * bytes, kInput, bytes);
  for (std::uint32_t distance = 1; distance < context.world_size; ++distance) {
    const std::uint32_t from = (root + distance) % context.world_size;
    builder.receive(from, kOutput + from * bytes, bytes);
  }
  return std::move(builder).take();
}

Plan plan_all_to_all(const PlanContext& context, const std::vector<std::size_t>& send_bytes,
                     const std::vector<std::size_t>& receive_bytes) {
  PlanBuilder builder(context.world_size);
  const std::vector<std::size_t> from_offsets = offsets_of(send_bytes);
  const std::vector<std::size_t> to_offsets = offsets_of(receive_bytes);
  // In round d each rank sends to the rank d further on, so that no rank receives from two at once.
  for (std::uint32_t distance = 1; distance < context.world_size; ++distance) {
    const std::uint32_t to = (context.rank + distance) % context.world_size;
    const std::uint32_t from = (context.rank + context.world_size - distance) % context.world_size;
    builder.send(to, kInput + from_offsets[to], send_bytes[to]);
    builder.receive(from, kOutput + to_offsets[from], receive_bytes[from]);
  }
  builder.copy(kOutput + to_offsets[context.rank], kInput + from_offsets[context.rank], send_bytes[context.rank]);
  return std::move(builder).take();
}

Plan plan_all_to_all(const PlanContext& context, std::size_t bytes) {
  if (uses_shared_memory(context, bytes * context.world_size)) {
    return shared_memory_all_to_all(context, bytes);
  }
  const std::vector<std::size_t> equal(context.world_size, bytes);
  return plan_all_to_all(context, equal, equal);
}

/// The dissemination barrier of D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", 1988.
/// After round i a rank knows that 2^(i+1) ranks have arrived.
Plan plan_barrier(const PlanContext& context) {
  PlanBuilder builder(context.world_size);
  const std::uint32_t size = context.world_size;
  StepIndex arrived = kNoStep;
  for (std::uint32_t distance = 1; distance < size; distance *= 2) {
    const Location out = builder.scratch(1);
    const Location in = builder.scratch(1);
    builder.send((context.rank + distance) % size, out, 1, {arrived, kNoStep});
    const StepIndex received = builder.receive((context.rank + size - distance) % size, in, 1);
    arrived = builder.join(arrived, received);
  }
  return std::move(builder).take();
}

}  // namespace rollcall::process_group
