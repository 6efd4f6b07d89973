#include "trainer/data/sampling/sampler.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <map>

namespace rollcall::data {
namespace {

SamplerOptions options(std::int64_t size, std::int64_t batch, std::int64_t world = 1) {
  SamplerOptions result;
  result.dataset_size = size;
  result.batch_size = batch;
  result.world_size = world;
  result.seed = 11;
  result.shuffle = true;
  return result;
}

/// What all ranks together read in one step, in order of rank.
std::vector<SampleRef> global_batch(SamplerOptions chosen, std::uint64_t epoch, std::int64_t start, std::int64_t step) {
  std::vector<SampleRef> all;
  for (chosen.rank = 0; chosen.rank < chosen.world_size; ++chosen.rank) {
    Sampler sampler(chosen);
    sampler.set_epoch(epoch, start);
    const auto part = sampler.batch(step);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::int64_t steps_of(const SamplerOptions& chosen, std::int64_t start) {
  Sampler sampler(chosen);
  sampler.set_epoch(0, start);
  return sampler.steps();
}

TEST(EpochSampler, KeepsTheOrderOfTheDataWithoutShuffle) {
  SamplerOptions chosen = options(6, 2);
  chosen.shuffle = false;
  const Sampler sampler(chosen);
  EXPECT_EQ(sampler.batch(1), (std::vector<SampleRef>{{2, true}, {3, true}}));
  EXPECT_EQ(sampler.steps(), 3);
}

TEST(EpochSampler, EachEpochHasAnotherOrderEqualOnAllRanks) {
  EXPECT_EQ(global_batch(options(100, 25, 2), 0, 0, 1), global_batch(options(100, 10, 5), 0, 0, 1));
  EXPECT_NE(global_batch(options(100, 50), 0, 0, 0), global_batch(options(100, 50), 1, 0, 0));
}

TEST(EpochSampler, RepetitionsOfASampleAreOnConsecutiveRanks) {
  SamplerOptions chosen = options(100, 6, 4);
  chosen.repetitions = 3;
  EpochOrder order({.size = 100, .seed = 11, .shuffle = true}, 2);
  const std::vector<SampleRef> batch = global_batch(chosen, 2, 0, 1);
  for (std::int64_t position = 24; position < 48; ++position) {
    const std::int64_t rank = position % 4;
    const SampleRef& found = batch[static_cast<std::size_t>(rank * 6 + (position - 24) / 4)];
    EXPECT_EQ(found, (SampleRef{order(position / 3), true, position % 3})) << position;
  }
  EXPECT_EQ(augmentation_epoch(2, batch[0]), 2U);  // position 24
  EXPECT_NE(augmentation_epoch(2, batch[6]), augmentation_epoch(2, batch[12]));
}

TEST(EpochSampler, RepetitionsAreTheSameOnAnyNumberOfRanksAfterAnyPosition) {
  const auto all = [](std::int64_t world, std::int64_t batch, std::int64_t start, std::int64_t steps) {
    SamplerOptions chosen = options(97, batch, world);
    chosen.repetitions = 3;
    std::map<std::pair<std::int64_t, std::int64_t>, int> seen;
    for (std::int64_t step = 0; step < steps; ++step) {
      for (const SampleRef& sample : global_batch(chosen, 1, start, step)) {
        seen[{sample.index, sample.repetition}] += 1;
      }
    }
    return seen;
  };
  auto resumed = all(2, 5, 0, 4);  // 40 positions, then 30 more on 3 ranks
  resumed.merge(all(3, 10, 40, 1));
  EXPECT_EQ(resumed, all(1, 7, 0, 10));
  EXPECT_EQ(resumed.size(), 70U);
}

TEST(EpochSampler, CountsStepsOfSeveralBatchesWithAccumulation) {
  SamplerOptions chosen = options(103, 5, 4);
  chosen.accumulation = 2;
  chosen.drop_last = true;
  Sampler dropping(chosen);
  EXPECT_EQ(dropping.steps(), 2);
  EXPECT_EQ(dropping.batches(), 4);
  EXPECT_EQ(dropping.position_after(1), 40);
  dropping.set_epoch(0, 40);
  EXPECT_EQ(dropping.batches(), 2);
  // The batches of a step cover what one batch twice as large would.
  auto both = global_batch(chosen, 0, 40, 0);
  const auto second = global_batch(chosen, 0, 40, 1);
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(both, global_batch(options(103, 10, 4), 0, 40, 0));

  chosen.drop_last = false;
  EXPECT_EQ(Sampler(chosen).batches(), 6);
  chosen.pad = true;
  EXPECT_EQ(Sampler(chosen).steps(), 3);
  EXPECT_EQ(Sampler(chosen).batches(), 6);
  const std::vector<SampleRef> last = global_batch(chosen, 0, 0, 5);
  EXPECT_EQ(std::count_if(last.begin(), last.end(), [](const SampleRef& s) { return s.counted; }), 3);
  EXPECT_EQ(last.size(), 20U);
}

TEST(EpochSampler, ReadsTheBatchesOfSeveralVirtualRanksInTurn) {
  SamplerOptions chosen = options(103, 3, 5);
  chosen.accumulation = 2;
  chosen.pad = true;
  chosen.rank = 1;
  chosen.ranks = 3;
  Sampler several(chosen);
  several.set_epoch(2, 6);
  EXPECT_EQ(several.batches(), several.steps() * 2 * 3);
  EXPECT_EQ(several.position_after(1), 36);
  std::int64_t next = 0;
  for (std::int64_t step = 0; step < several.steps(); ++step) {
    for (std::int64_t rank = 1; rank < 4; ++rank) {
      SamplerOptions of_one = chosen;
      of_one.rank = rank;
      of_one.ranks = 1;
      Sampler one(of_one);
      one.set_epoch(2, 6);
      for (std::int64_t batch = 2 * step; batch < 2 * step + 2; ++batch, ++next) {
        EXPECT_EQ(several.batch(next), one.batch(batch));
        EXPECT_EQ(several.first_position(next), one.first_position(batch));
      }
    }
  }
  EXPECT_EQ(next, several.batches());
  chosen.ranks = 0;
  EXPECT_EQ(Sampler(chosen).batches(), 0);
}

TEST(EpochSampler, DropLastGivesEveryRankEquallyManyFullBatches) {
  SamplerOptions chosen = options(103, 5, 4);
  chosen.drop_last = true;
  EXPECT_EQ(steps_of(chosen, 0), 5);
  for (std::int64_t step = 0; step < 5; ++step) {
    EXPECT_EQ(global_batch(chosen, 0, 0, step).size(), 20U);
  }
  chosen.dataset_size = 19;
  EXPECT_EQ(steps_of(chosen, 0), 0);
}

TEST(EpochSampler, PaddingWrapsAroundAndCountsEverySampleOnce) {
  for (const std::int64_t size : {1, 3, 19, 20, 21, 103}) {
    SamplerOptions chosen = options(size, 5, 4);
    chosen.pad = true;
    std::map<std::int64_t, int> counted;
    const auto beginning = global_batch(chosen, 0, 0, 0);
    for (std::int64_t step = 0; step < steps_of(chosen, 0); ++step) {
      const auto batch = global_batch(chosen, 0, 0, step);
      ASSERT_EQ(batch.size(), 20U);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const std::int64_t position = step * 20 + static_cast<std::int64_t>(i);
        counted[batch[i].index] += batch[i].counted ? 1 : 0;
        EXPECT_EQ(batch[i].counted, position < size);
        if (position >= size && position < 2 * size && position - size < 20) {
          EXPECT_EQ(batch[i].index, beginning[static_cast<std::size_t>(position - size)].index);
        }
      }
    }
    EXPECT_EQ(counted.size(), static_cast<std::size_t>(size));
    EXPECT_TRUE(std::all_of(counted.begin(), counted.end(), [](const auto& entry) { return entry.second == 1; }));
  }
}

TEST(EpochSampler, LastBatchIsShortWithoutDropAndPad) {
  EXPECT_EQ(global_batch(options(23, 5, 4), 0, 0, 1).size(), 3U);
  SamplerOptions last_rank = options(23, 5, 4);
  last_rank.rank = 3;
  EXPECT_TRUE(Sampler(last_rank).batch(1).empty());
}

// Interrupted at random steps and continued with random world and batch sizes, an epoch still reads each sample once.
TEST(EpochSampler, ResumeWithAnyWorldSizeReadsEachSampleOnce) {
  std::uint64_t state = 1;
  const auto below = [&](std::uint64_t count) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::int64_t>((state >> 33) % count);
  };
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t size = 1 + below(500);
    const auto epoch = static_cast<std::uint64_t>(below(5));
    const std::int64_t window = trial % 2 == 0 ? 0 : 1 + below(40);
    std::vector<std::int64_t> visited;
    std::int64_t position = 0;
    while (position < size) {
      SamplerOptions chosen = options(size, 1 + below(9), 1 + below(64));
      chosen.window = window;
      Sampler sampler(chosen);
      sampler.set_epoch(epoch, position);
      const std::int64_t steps = 1 + below(static_cast<std::uint64_t>(sampler.steps()));
      for (std::int64_t step = 0; step < steps; ++step) {
        for (const SampleRef& sample : global_batch(chosen, epoch, position, step)) {
          visited.push_back(sample.index);
        }
      }
      position = sampler.position_after(steps);
      ASSERT_EQ(static_cast<std::int64_t>(visited.size()), position);
    }
    std::sort(visited.begin(), visited.end());
    for (std::int64_t i = 0; i < size; ++i) {
      ASSERT_EQ(visited[static_cast<std::size_t>(i)], i) << "size " << size << ", trial " << trial;
    }
  }
}

TEST(EpochSampler, ResumedEpochContinuesInTheSameOrder) {
  const auto second = global_batch(options(60, 5, 2), 3, 0, 1);
  EXPECT_EQ(global_batch(options(60, 5, 2), 3, 10, 0), second);
}

}  // namespace
}  // namespace rollcall::data
