// Every algorithm, on all ranks at once, against a scalar reference.

#include "trainer/distributed/algorithms/algorithms.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <numeric>

#include "tests/trainer/distributed/algorithms/simulated_ranks.h"

namespace rollcall::process_group {
namespace {

using testing_support::RankMemory;
using testing_support::simulate;
using testing_support::Work;

constexpr std::size_t kNumber = sizeof(std::int32_t);

/// A way to choose algorithms: what is short, what is long, and how long messages are cut.
struct Sizes {
  std::string name;
  std::size_t small = 0, medium = 0, segment = 0;
  std::size_t window_part = 0;  ///< 0: there are no windows
};

const std::vector<Sizes> kSizes = {{"all short", 1 << 30, 1 << 30, 64},
                                   {"halving and doubling", 0, 1 << 30, 64},
                                   {"rings of small segments", 0, 0, 8 * kNumber},
                                   {"rings of single elements", 0, 0, kNumber},
                                   {"windows of small parts", 0, 0, 64, 16 * kNumber},
                                   {"windows of single elements", 0, 0, 64, kNumber}};

struct World {
  std::uint32_t size = 1;
  Sizes sizes;
  std::size_t depth = 4;

  [[nodiscard]] PlanContext context(std::uint32_t rank) const {
    return PlanContext{.rank = rank,
                       .world_size = size,
                       .element_bytes = kNumber,
                       .small_bytes = sizes.small,
                       .medium_bytes = sizes.medium,
                       .segment_bytes = sizes.segment,
                       .depth = depth,
                       .shared_memory_bytes = sizes.window_part == 0 ? 0 : testing_support::SimulatedRank::kWindowBytes,
                       .shared_memory_above_bytes = 0,
                       .shared_memory_part_bytes = sizes.window_part};
  }
  template <typename MakePlan>
  [[nodiscard]] std::vector<Plan> plans(const MakePlan& make_plan) const {
    std::vector<Plan> all;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      all.push_back(make_plan(context(rank)));
    }
    return all;
  }
};

std::int32_t value(std::uint32_t rank, std::size_t i) { return static_cast<std::int32_t>(rank * 1000003 + i * 7 + 1); }

std::vector<std::int32_t> values(std::uint32_t rank, std::size_t count) {
  std::vector<std::int32_t> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = value(rank, i);
  }
  return all;
}

std::vector<std::int32_t> sums(std::uint32_t world_size, std::size_t count) {
  std::vector<std::int32_t> all(count, 0);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const std::vector<std::int32_t> one = values(rank, count);
    std::transform(all.begin(), all.end(), one.begin(), all.begin(), std::plus<>());
  }
  return all;
}

std::vector<std::int32_t> part(const std::vector<std::int32_t>& whole, std::size_t number, std::size_t count) {
  const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(number * count);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

/// Calls `check` for worlds of 1 to 9 ranks, every way of choosing algorithms and counts of elements that chunks and
/// segments divide, do not divide, or leave empty.
void for_every_world(const std::function<void(const World&, std::size_t count)>& check) {
  for (std::uint32_t size = 1; size <= 9; ++size) {
    for (const Sizes& sizes : kSizes) {
      for (const std::size_t count : {0U, 1U, 2U, 7U, 64U, 257U}) {
        SCOPED_TRACE(std::to_string(size) + " ranks, " + sizes.name + ", " + std::to_string(count) + " elements");
        for (const std::size_t depth : {1U, 4U}) {
          check(World{size, sizes, depth}, count);
        }
        if (testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
}

std::vector<RankMemory> memory_with_outputs(const World& world, std::size_t count) {
  std::vector<RankMemory> memory(world.size);
  for (std::uint32_t rank = 0; rank < world.size; ++rank) {
    memory[rank].output = values(rank, count);
  }
  return memory;
}

std::vector<RankMemory> memory_with_inputs(const World& world, std::size_t inputs, std::size_t outputs) {
  std::vector<RankMemory> memory(world.size);
  for (std::uint32_t rank = 0; rank < world.size; ++rank) {
    memory[rank] = RankMemory{values(rank, inputs), std::vector<std::int32_t>(outputs, -1)};
  }
  return memory;
}

TEST(Algorithms, AllReduceGivesEveryRankTheSum) {
  for_every_world([](const World& world, std::size_t count) {
    std::vector<RankMemory> memory = memory_with_outputs(world, count);
    const auto plans = world.plans([&](const PlanContext& c) { return plan_all_reduce(c, count * kNumber); });
    simulate(plans, memory, world.depth, 1);
    for (const RankMemory& one : memory) {
      ASSERT_EQ(one.output, sums(world.size, count));
    }
  });
}

TEST(Algorithms, ReduceScatterGivesEachRankItsPartWithoutChangingTheInput) {
  for_every_world([](const World& world, std::size_t count) {
    std::vector<RankMemory> memory = memory_with_inputs(world, world.size * count, count);
    const auto plans = world.plans([&](const PlanContext& c) { return plan_reduce_scatter(c, count * kNumber); });
    simulate(plans, memory, world.depth, 2);
    for (std::uint32_t rank = 0; rank < world.size; ++rank) {
      ASSERT_EQ(memory[rank].output, part(sums(world.size, world.size * count), rank, count));
      ASSERT_EQ(memory[rank].input, values(rank, world.size * count));
    }
  });
}

TEST(Algorithms, AllGatherGivesEveryRankAllParts) {
  for_every_world([](const World& world, std::size_t count) {
    std::vector<RankMemory> memory = memory_with_inputs(world, count, world.size * count);
    const auto plans = world.plans([&](const PlanContext& c) { return plan_all_gather(c, count * kNumber); });
    simulate(plans, memory, world.depth, 3);
    for (std::uint32_t rank = 0; rank < world.size; ++rank) {
      for (std::uint32_t other = 0; other < world.size; ++other) {
        ASSERT_EQ(part(memory[rank].output, other, count), values(other, count));
      }
    }
  });
}

TEST(Algorithms, BroadcastGivesEveryRankTheValuesOfTheRoot) {
  for_every_world([](const World& world, std::size_t count) {
    for (std::uint32_t root = 0; root < world.size; ++root) {
      std::vector<RankMemory> memory = memory_with_outputs(world, count);
      const auto plans = world.plans([&](const PlanContext& c) { return plan_broadcast(c, count * kNumber, root); });
      simulate(plans, memory, world.depth, 4);
      for (const RankMemory& one : memory) {
        ASSERT_EQ(one.output, values(root, count));
      }
    }
  });
}

TEST(Algorithms, GatherMovesEachRanksPartToTheRoot) {
  for_every_world([](const World& world, std::size_t count) {
    const std::uint32_t root = world.size / 2;
    std::vector<RankMemory> gathered = memory_with_inputs(world, count, world.size * count);
    simulate(world.plans([&](const PlanContext& c) { return plan_gather(c, count * kNumber, root); }), gathered,
             world.depth, 6);
    for (std::uint32_t rank = 0; rank < world.size; ++rank) {
      ASSERT_EQ(part(gathered[root].output, rank, count), values(rank, count));
    }
  });
}

/// Rank r sends rank s this many elements.
std::size_t uneven(std::uint32_t r, std::uint32_t s, std::size_t count) { return (r * 3 + s) % 4 * count; }

TEST(Algorithms, AllToAllMovesPartsOfAnySize) {
  for_every_world([](const World& world, std::size_t count) {
    std::vector<RankMemory> memory(world.size);
    std::vector<std::vector<std::size_t>> sent(world.size), received(world.size);
    for (std::uint32_t rank = 0; rank < world.size; ++rank) {
      for (std::uint32_t other = 0; other < world.size; ++other) {
        sent[rank].push_back(uneven(rank, other, count) * kNumber);
        received[rank].push_back(uneven(other, rank, count) * kNumber);
        const std::vector<std::int32_t> to_other = values(rank * 100 + other, uneven(rank, other, count));
        memory[rank].input.insert(memory[rank].input.end(), to_other.begin(), to_other.end());
        memory[rank].output.resize(memory[rank].output.size() + uneven(other, rank, count), -1);
      }
    }
    simulate(world.plans([&](const PlanContext& c) { return plan_all_to_all(c, sent[c.rank], received[c.rank]); }),
             memory, world.depth, 8);
    for (std::uint32_t rank = 0; rank < world.size; ++rank) {
      std::vector<std::int32_t> expected;
      for (std::uint32_t other = 0; other < world.size; ++other) {
        const std::vector<std::int32_t> from = values(other * 100 + rank, uneven(other, rank, count));
        expected.insert(expected.end(), from.begin(), from.end());
      }
      ASSERT_EQ(memory[rank].output, expected);
    }
  });
}

TEST(Algorithms, AllToAllOfEqualPartsTransposesThem) {
  for_every_world([](const World& world, std::size_t count) {
    const std::size_t all = world.size * count;
    std::vector<RankMemory> memory = memory_with_inputs(world, all, all);
    simulate(world.plans([&](const PlanContext& c) { return plan_all_to_all(c, count * kNumber); }), memory,
             world.depth, 10);
    for (std::uint32_t rank = 0; rank < world.size; ++rank) {
      for (std::uint32_t other = 0; other < world.size; ++other) {
        ASSERT_EQ(part(memory[rank].output, other, count), part(values(other, all), rank, count));
      }
    }
  });
}

/// While one rank is missing, no other rank may pass the barrier.
TEST(Algorithms, BarrierBlocksUntilEveryRankArrives) {
  for (std::uint32_t size = 2; size <= 9; ++size) {
    for (std::uint32_t missing = 0; missing < size; ++missing) {
      const std::vector<Plan> plans = World{size, kSizes[0]}.plans(&plan_barrier);
      testing_support::SimulatedNetwork network(9);
      std::vector<std::vector<std::byte>> scratch(size, std::vector<std::byte>(1024));
      std::vector<testing_support::SimulatedTransport> transports;
      std::vector<std::unique_ptr<Execution>> running;
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        transports.emplace_back(network, rank);
        running.push_back(std::make_unique<Execution>(
            plans[rank], Areas{.input = nullptr, .output = nullptr, .scratch = scratch[rank].data()}, Combining{}, 0,
            4));
      }
      do {
        for (std::uint32_t rank = 0; rank < size; ++rank) {
          ASSERT_TRUE(rank == missing || running[rank]->advance(transports[rank]) == RequestState::UnderWay);
        }
      } while (network.move_one());
    }
  }
}

TEST(Algorithms, RingsAndHalvingSendNoMoreThanTheMinimum) {
  constexpr std::size_t kCount = 8 * 9 * 5 * 7;  // divides evenly among any of these worlds
  for (std::uint32_t size = 2; size <= 9; ++size) {
    for (const std::size_t way : {1U, 2U}) {
      const World world{size, kSizes[way]};
      const bool power_of_two = (size & (size - 1)) == 0;
      const std::size_t share = kCount * kNumber * (size - 1) / size;
      std::vector<RankMemory> reduced = memory_with_outputs(world, kCount);
      const auto all_reduce = world.plans([&](const PlanContext& c) { return plan_all_reduce(c, kCount * kNumber); });
      if (way == 2 || power_of_two) {
        EXPECT_EQ(simulate(all_reduce, reduced, 4, 10), std::vector<std::size_t>(size, 2 * share)) << size;
      }
      std::vector<RankMemory> scattered = memory_with_inputs(world, kCount, kCount / size);
      const auto scatter =
          world.plans([&](const PlanContext& c) { return plan_reduce_scatter(c, kCount / size * kNumber); });
      EXPECT_EQ(simulate(scatter, scattered, 4, 11), std::vector<std::size_t>(size, share)) << size;
      std::vector<RankMemory> gathered = memory_with_inputs(world, kCount / size, kCount);
      const auto gather =
          world.plans([&](const PlanContext& c) { return plan_all_gather(c, kCount / size * kNumber); });
      EXPECT_EQ(simulate(gather, gathered, 4, 12), std::vector<std::size_t>(size, share)) << size;
    }
  }
}

TEST(Algorithms, SharedWindowsSendOnlyControlWords) {
  for (std::uint32_t size = 2; size <= 9; ++size) {
    const World world{size, kSizes[4]};
    const std::size_t part = kSizes[4].window_part / kNumber;
    const std::size_t words = (size - 1) * sizeof(Word);
    std::vector<RankMemory> reduced = memory_with_outputs(world, 3 * size * part);
    const auto all_reduce =
        world.plans([&](const PlanContext& c) { return plan_all_reduce(c, 3 * size * part * kNumber); });
    EXPECT_EQ(simulate(all_reduce, reduced, 4, 13), std::vector<std::size_t>(size, 4 * words));
    std::vector<RankMemory> scattered = memory_with_inputs(world, 3 * size * part, 3 * part);
    const auto scatter = world.plans([&](const PlanContext& c) { return plan_reduce_scatter(c, 3 * part * kNumber); });
    EXPECT_EQ(simulate(scatter, scattered, 4, 14), std::vector<std::size_t>(size, 3 * words));
    std::vector<RankMemory> gathered = memory_with_inputs(world, 3 * part, 3 * size * part);
    const auto gather = world.plans([&](const PlanContext& c) { return plan_all_gather(c, 3 * part * kNumber); });
    EXPECT_EQ(simulate(gather, gathered, 4, 15), std::vector<std::size_t>(size, 3 * words));
  }
}

TEST(Algorithms, ResultsDoNotDependOnTheOrderOfMessages) {
  for (const std::size_t way : {2U, 4U}) {
    const World world{6, kSizes[way]};
    const auto plans = world.plans([&](const PlanContext& c) { return plan_all_reduce(c, 500 * kNumber); });
    for (unsigned seed = 0; seed < 50; ++seed) {
      std::vector<RankMemory> memory = memory_with_outputs(world, 500);
      simulate(plans, memory, 1 + seed % 5, seed);
      for (const RankMemory& one : memory) {
        ASSERT_EQ(one.output, sums(world.size, 500)) << world.sizes.name << ", seed " << seed;
      }
    }
  }
}

/// Back-to-back collectives of all kinds, with one round and with several.
TEST(Algorithms, AFasterRankNeverOverwritesAWindowInUse) {
  const World world{5, kSizes[4]};
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::vector<std::vector<RankMemory>> memory;
    std::vector<Work> works;
    for (const std::size_t count : {7U, 100U, 1U, 40U, 8U, 3U}) {
      memory.push_back(memory_with_outputs(world, count));
      memory.push_back(memory_with_inputs(world, count, world.size * count));
      memory.push_back(memory_with_inputs(world, world.size * count, count));
    }
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const std::size_t bytes = std::min(memory[i][0].output.size(), memory[i][0].input.size()) * kNumber;
      works.push_back({world.plans([&](const PlanContext& c) {
                         return i % 3 == 0   ? plan_all_reduce(c, memory[i][0].output.size() * kNumber)
                                : i % 3 == 1 ? plan_all_gather(c, bytes)
                                             : plan_reduce_scatter(c, bytes);
                       }),
                       &memory[i]});
    }
    simulate(works, 4, seed);
    for (std::size_t i = 0; i < memory.size(); i += 3) {
      const std::size_t count = memory[i][0].output.size();
      for (std::uint32_t rank = 0; rank < world.size; ++rank) {
        ASSERT_EQ(memory[i][rank].output, sums(world.size, count)) << "seed " << seed;
        ASSERT_EQ(part(memory[i + 1][rank].output, 1, count), values(1, count)) << "seed " << seed;
        ASSERT_EQ(memory[i + 2][rank].output, part(sums(world.size, world.size * count), rank, count))
            << "seed " << seed;
      }
    }
  }
}

TEST(Algorithms, BeginReportsWhetherOnlyWaitingIsLeft) {
  std::vector<std::byte> memory(4096);
  const Areas areas{.output = memory.data(), .scratch = memory.data(), .shared_memory = memory.data()};
  const auto only_waits = [&](std::size_t way, bool other_is_ahead) {
    const World world{2, kSizes[way]};
    testing_support::SimulatedNetwork network(17);
    testing_support::SimulatedTransport mine(network, 0);
    testing_support::SimulatedTransport others(network, 1);
    const Plan plan = plan_all_reduce(world.context(0), 16 * kNumber);
    Execution execution(plan, areas, Combining{}, 0, 4);
    if (other_is_ahead) {
      static_cast<void>(others.send(0, {.operation = 0, .message = 0}, memory.data(), 16 * kNumber));
      mine.arrives_at_once = true;
    }
    return execution.begin(mine);
  };
  EXPECT_TRUE(only_waits(0, false));
  EXPECT_FALSE(only_waits(0, true)) << "what came is to be added";
  EXPECT_FALSE(only_waits(4, false)) << "a part is to be left in the window";
}

TEST(Algorithms, ControlWordDetectsADifferentCallOfAnotherRank) {
  const World world{2, kSizes[4]};
  std::vector<RankMemory> memory = memory_with_outputs(world, 500);
  const std::vector<Plan> plans{plan_all_reduce(world.context(0), 500 * kNumber),
                                plan_all_reduce(world.context(1), 499 * kNumber)};
  testing_support::SimulatedNetwork network(16);
  std::vector<testing_support::SimulatedTransport> transports{{network, 0}, {network, 1}};
  std::vector<std::byte> window(testing_support::SimulatedRank::kWindowBytes);
  std::vector<std::unique_ptr<Execution>> running;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const Areas areas{.output = reinterpret_cast<std::byte*>(memory[rank].output.data()),
                      .shared_memory = window.data(),
                      .peer_shared_memory = {window.data(), window.data()}};
    running.push_back(std::make_unique<Execution>(plans[rank], areas, Combining{}, 0, 4));
    EXPECT_EQ(running[rank]->advance(transports[rank]), RequestState::UnderWay);
  }
  while (network.move_one()) {
  }
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(running[rank]->advance(transports[rank]), RequestState::Failed);
    EXPECT_EQ(running[rank]->disagreeing_peer(), 1 - rank);
  }
}

}  // namespace
}  // namespace rollcall::process_group
