#include "trainer/distributed/algorithms/collective.h"

namespace rollcall::process_group {

bool reduces(CollectiveKind kind) { return kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter; }

Plan plan_of(const Collective& collective, std::uint32_t rank, std::uint32_t world_size,
             std::size_t shared_memory_bytes) {
  const PlanContext context{.rank = rank,
                            .world_size = world_size,
                            .element_bytes = reduces(collective.kind) ? collective.element_bytes : 1,
                            .shared_memory_bytes = shared_memory_bytes};
  switch (collective.kind) {
    case CollectiveKind::AllReduce:
      return plan_all_reduce(context, collective.bytes);
    case CollectiveKind::ReduceScatter:
      return plan_reduce_scatter(context, collective.bytes);
    case CollectiveKind::AllGather:
      return plan_all_gather(context, collective.bytes);
    case CollectiveKind::Broadcast:
      return plan_broadcast(context, collective.bytes, collective.root);
    case CollectiveKind::Gather:
      return plan_gather(context, collective.bytes, collective.root);
    case CollectiveKind::AllToAll:
      return collective.parts_differ() ? plan_all_to_all(context, collective.send_bytes, collective.receive_bytes)
                                       : plan_all_to_all(context, collective.bytes);
    case CollectiveKind::Barrier:
      break;
  }
  return plan_barrier(context);
}

Combining combining_of(const Collective& collective) {
  if (!reduces(collective.kind)) {
    return {};
  }
  return Combining{combine_function(collective.element, collective.reduction), collective.element_bytes};
}

}  // namespace rollcall::process_group
