#include "trainer/distributed/algorithms/shared_memory.h"

#include "trainer/distributed/algorithms/segments.h"

namespace rollcall::process_group {
namespace {

constexpr std::size_t kSlots = 2;

enum class Kind : Word { AllReduce = 1, ReduceScatter, AllGather, AllToAll };

/// Builds a plan. Shared memory has two slots, for even and odd rounds, and each slot has a part for every rank. In
/// round k a rank writes at most for round k + 1, over the data of round k - 1; it knows by then that all ranks have
/// completed round k - 1.
class WindowPlan {
 public:
  WindowPlan(const PlanContext& context, Kind kind, std::size_t bytes)
      : context_(context), builder_(context.world_size), received_(context.world_size, kNoStep) {
    builder_.agree_on(bytes << 4 | static_cast<Word>(kind));
    constexpr std::size_t kCacheLine = 64;
    const std::size_t share =
        std::min(context.shared_memory_part_bytes, context.shared_memory_bytes / (kSlots * context.world_size));
    const std::size_t unit = share < kCacheLine ? context.element_bytes : kCacheLine;
    part_bytes_ = share / unit * unit;
  }

  /// Calls `visit(round)` for each round of chunks of up to `longest` bytes, and for `extra` more. A round begins once
  /// all ranks have reported to each other that they have completed the last one.
  template <typename Visit>
  void for_each_round(std::size_t longest, std::size_t extra, const Visit& visit) {
    const std::size_t rounds = (longest + part_bytes_ - 1) / part_bytes_ + extra;
    for (std::size_t round = 0; round < rounds; ++round) {
      visit(round);
      if (round + 1 < rounds) {
        meet();
      }
    }
  }
  /// Begins with the rank after this one, so that not all ranks read from the same one at once.
  template <typename Visit>
  void for_each_peer(const Visit& visit) const {
    for (std::uint32_t distance = 1; distance < context_.world_size; ++distance) {
      visit((context_.rank + distance) % context_.world_size);
    }
  }

  /// Returns the part of `chunk` for `round`; empty beyond its end.
  [[nodiscard]] Range part_of(const Range& chunk, std::size_t round) const {
    const std::size_t from = std::min(round * part_bytes_, chunk.bytes);
    return Range{chunk.begin + from, std::min(part_bytes_, chunk.bytes - from)};
  }

  /// Writes `part` to shared memory for `reader`, or for all ranks if `reader` is this rank, until the round after
  /// `round`.
  void leave(std::uint32_t reader, std::size_t round, Location area, const Range& part) {
    did(builder_.copy(Location{Area::SharedMemory, offset(reader, round)}, area + part.begin, part.bytes,
                      {received_[reader], kNoStep}));
  }
  /// Copies what `writer` wrote for `reader` in `round` to `part`, or combines it with `part`.
  void take_up(std::uint32_t writer, std::uint32_t reader, std::size_t round, Location area, const Range& part) {
    did(builder_.copy_from(writer, area + part.begin, offset(reader, round), part.bytes, {received_[writer], kNoStep}));
  }
  void combine(std::uint32_t writer, std::size_t round, Location area, const Range& part) {
    did(builder_.combine_from(writer, area + part.begin, offset(context_.rank, round), part.bytes,
                              {received_[writer], kNoStep}));
  }
  void copy(Location target, Location source, std::size_t bytes) { did(builder_.copy(target, source, bytes)); }

  [[nodiscard]] Plan take() && { return std::move(builder_).take(); }

 private:
  void did(StepIndex step) { last_ = step == kNoStep ? last_ : step; }

  [[nodiscard]] std::size_t offset(std::uint32_t reader, std::size_t round) const {
    return (round % kSlots * context_.world_size + reader) * part_bytes_;
  }

  /// Reports to all ranks that this one has completed its steps so far, and waits for their reports. Local steps run in
  /// order, so the last one is enough.
  void meet() {
    for_each_peer([this](std::uint32_t peer) { builder_.send_word(peer, last_); });
    for (std::uint32_t distance = 1; distance < context_.world_size; ++distance) {
      const std::uint32_t peer = (context_.rank + context_.world_size - distance) % context_.world_size;
      received_[peer] = builder_.receive_word(peer);
    }
  }

  const PlanContext& context_;
  PlanBuilder builder_;
  std::size_t part_bytes_ = 0;
  StepIndex last_ = kNoStep;
  std::vector<StepIndex> received_;  ///< by rank: its last word
};

}  // namespace

/// Round i reads the sums of part i - 2, writes part i of all other chunks for their ranks, adds up part i - 1 of the
/// own chunk and writes the sum for all.
Plan shared_memory_all_reduce(const PlanContext& context, std::size_t bytes) {
  WindowPlan plan(context, Kind::AllReduce, bytes);
  const Chunks chunks(bytes, context.element_bytes, context.world_size);
  plan.for_each_round(chunks.largest(), 2, [&](std::size_t round) {
    if (round >= 2) {
      plan.for_each_peer([&](std::uint32_t peer) {
        plan.take_up(peer, peer, round - 2, kOutput, plan.part_of(chunks[peer], round - 2));
      });
    }
    plan.for_each_peer(
        [&](std::uint32_t peer) { plan.leave(peer, round, kOutput, plan.part_of(chunks[peer], round)); });
    if (round >= 1) {
      const Range part = plan.part_of(chunks[context.rank], round - 1);
      plan.for_each_peer([&](std::uint32_t peer) { plan.combine(peer, round - 1, kOutput, part); });
      plan.leave(context.rank, round - 1, kOutput, part);
    }
  });
  return std::move(plan).take();
}

/// Round i writes part i of all other ranks' chunks for them, and adds up part i - 1 of the own chunk.
Plan shared_memory_reduce_scatter(const PlanContext& context, std::size_t bytes) {
  WindowPlan plan(context, Kind::ReduceScatter, bytes);
  plan.for_each_round(bytes, 1, [&](std::size_t round) {
    plan.for_each_peer([&](std::uint32_t peer) {
      plan.leave(peer, round, kInput, plan.part_of(Range{peer * bytes, bytes}, round));
    });
    if (round >= 1) {
      const Range part = plan.part_of(Range{0, bytes}, round - 1);
      plan.copy(kOutput + part.begin, kInput + (context.rank * bytes + part.begin), part.bytes);
      plan.for_each_peer([&](std::uint32_t peer) { plan.combine(peer, round - 1, kOutput, part); });
    }
  });
  return std::move(plan).take();
}

/// Round i reads part i - 1 of all ranks, and writes part i of the own data for all.
Plan shared_memory_all_gather(const PlanContext& context, std::size_t bytes) {
  WindowPlan plan(context, Kind::AllGather, bytes);
  plan.for_each_round(bytes, 1, [&](std::size_t round) {
    if (round >= 1) {
      plan.for_each_peer([&](std::uint32_t peer) {
        plan.take_up(peer, peer, round - 1, kOutput, plan.part_of(Range{peer * bytes, bytes}, round - 1));
      });
    }
    const Range part = plan.part_of(Range{0, bytes}, round);
    plan.leave(context.rank, round, kInput, part);
    plan.copy(kOutput + (context.rank * bytes + part.begin), kInput + part.begin, part.bytes);
  });
  return std::move(plan).take();
}

/// Round i reads part i - 1 of the other ranks' data for this one, and writes part i of its data for them.
Plan shared_memory_all_to_all(const PlanContext& context, std::size_t bytes) {
  WindowPlan plan(context, Kind::AllToAll, bytes);
  plan.for_each_round(bytes, 1, [&](std::size_t round) {
    if (round >= 1) {
      plan.for_each_peer([&](std::uint32_t peer) {
        plan.take_up(peer, context.rank, round - 1, kOutput, plan.part_of(Range{peer * bytes, bytes}, round - 1));
      });
    }
    plan.for_each_peer([&](std::uint32_t peer) {
      plan.leave(peer, round, kInput, plan.part_of(Range{peer * bytes, bytes}, round));
    });
    const Range own = plan.part_of(Range{context.rank * bytes, bytes}, round);
    plan.copy(kOutput + own.begin, kInput + own.begin, own.bytes);
  });
  return std::move(plan).take();
}

}  // namespace rollcall::process_group
