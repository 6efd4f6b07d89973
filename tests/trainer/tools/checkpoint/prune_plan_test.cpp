#include "trainer/tools/checkpoint/prune.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "trainer/checkpoint/format/file_state.h"

namespace rollcall::checkpoint_tool {
namespace {

using checkpoint::format::checkpoint_name;
using checkpoint::format::FileState;
using testing::ElementsAre;
using testing::IsEmpty;

ListedFile file_named(const std::string& name, FileState state, std::optional<std::int64_t> step = std::nullopt) {
  ListedFile file;
  file.path = "run/" + name;
  file.entry = {.inode = 1, .modified = 0, .links = 1, .is_regular = true, .is_own = true};
  file.state = state;
  file.step = step;
  return file;
}

ListedFile sound(std::int64_t step) { return file_named(checkpoint_name(step), FileState::Committed, step); }

std::vector<std::string> removed_names(const std::vector<ListedFile>& files, const PruneRules& rules) {
  const std::vector<PruneDecision> decisions = prune_decisions(files, rules);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_FALSE(decisions[i].reason.empty()) << files[i].path;
    if (decisions[i].is_removed) {
      names.push_back(files[i].path.substr(4));
    }
  }
  return names;
}

constexpr PruneRules kOnlyNewest{.keep_last = 1, .keep_best = 0, .keep_every = 0};

TEST(PrunePlan, StatesWhyEachCheckpointIsKept) {
  std::vector<ListedFile> files;
  for (std::int64_t step = 10; step <= 60; step += 10) {
    files.push_back(sound(step));
  }
  files.back().best = {{20, 0.9}};
  const auto decisions = prune_decisions(files, {.keep_last = 2, .keep_best = 1, .keep_every = 30});
  std::vector<std::string> reasons;
  for (const PruneDecision& decision : decisions) {
    reasons.push_back(decision.reason);
  }
  EXPECT_THAT(reasons, ElementsAre("the first of its 30 steps", "one of the best", "the first of its 30 steps",
                                   "superfluous", "one of the newest 2", "one of the newest 2"));
  EXPECT_TRUE(decisions[3].is_removed);
}

TEST(PrunePlan, KeepsAndDoesNotCountFilesOfOtherUsers) {
  std::vector<ListedFile> files{sound(10), sound(20), sound(97), sound(98), sound(99)};
  for (std::size_t i = 2; i < files.size(); ++i) {
    files[i].entry.is_own = false;
    files[i].entry.owner = 4711;
    files[i].best = {{99, 1.0}};
  }
  const auto decisions = prune_decisions(files, {.keep_last = 1, .keep_best = 1, .keep_every = 0});
  EXPECT_TRUE(decisions[0].is_removed);
  EXPECT_EQ(decisions[1].reason, "one of the newest 1");
  EXPECT_EQ(decisions[4].reason, "belongs to user 4711");
  EXPECT_THAT(removed_names(files, kOnlyNewest), ElementsAre(checkpoint_name(10)));
}

TEST(PrunePlan, TakesTheBestFromAllCheckpointsIfTheyExist) {
  std::vector<ListedFile> files{sound(10), sound(20), sound(30), sound(40)};
  files[1].best = {{5, 0.99}, {20, 0.8}, {10, 0.7}};  // that of step 5 is no longer there
  files[3].best = {{20, 0.8}};
  EXPECT_THAT(removed_names(files, {.keep_last = 1, .keep_best = 1}),
              ElementsAre(checkpoint_name(10), checkpoint_name(30)));
  EXPECT_THAT(removed_names(files, {.keep_last = 1, .keep_best = 2}), ElementsAre(checkpoint_name(30)));
}

TEST(PrunePlan, KeepsTheTargetOfTheBestLinkUnlessKeepBestIsZero) {
  std::vector<ListedFile> files{sound(10), sound(20)};
  files[0].is_best = true;
  EXPECT_THAT(removed_names(files, {.keep_last = 1, .keep_best = 1}), IsEmpty());
  EXPECT_EQ(prune_decisions(files, {.keep_last = 1})[0].reason, "the best");
  EXPECT_THAT(removed_names(files, kOnlyNewest), ElementsAre(checkpoint_name(10)));
}

TEST(PrunePlan, DoesNotCountUnusableCheckpoints) {
  for (const FileState state : {FileState::Damaged, FileState::Newer, FileState::Unreadable}) {
    std::vector<ListedFile> files{sound(10), sound(20), sound(30)};
    files[2].state = state;
    files[2].reason = "is what it is";
    EXPECT_THAT(removed_names(files, kOnlyNewest), ElementsAre(checkpoint_name(10)));
    EXPECT_EQ(prune_decisions(files, kOnlyNewest)[2].reason, "is what it is");
  }
}

TEST(PrunePlan, RemovesOnlyUnfinishedLeftoversOfDeadWriters) {
  const std::vector<ListedFile> others{
      file_named("step-00000001.h5.tmp-a-1", FileState::Writing, 1),
      file_named("step-00000001.h5.tmp-a-2", FileState::Unfinished, 1),
      file_named("step-00000001.h5.tmp-a-3", FileState::Unnamed, 1),
      file_named("step-00000002.h5.damaged", FileState::SetAside, 2),
      file_named("step-00000003.h5.superseded", FileState::Superseded, 3),
      file_named("mean.h5", FileState::Committed, 7),
      file_named("step-7.h5", FileState::Committed, 7),
      file_named("data.h5", FileState::Foreign),
  };
  EXPECT_THAT(removed_names(others, kOnlyNewest), ElementsAre("step-00000001.h5.tmp-a-2"))
      << "a finished one may be the only good state";
  std::vector<ListedFile> with_checkpoint = others;
  with_checkpoint.push_back(sound(1));
  EXPECT_THAT(removed_names(with_checkpoint, kOnlyNewest),
              ElementsAre("step-00000001.h5.tmp-a-2", "step-00000001.h5.tmp-a-3"));
}

TEST(PrunePlan, KeepsAndDoesNotCountLinksAndFolders) {
  std::vector<ListedFile> files{sound(10), sound(20),
                                file_named("step-00000030.h5.tmp-a-2", FileState::Unfinished, 30)};
  files[1].entry.is_regular = false;
  files[2].entry.is_regular = false;
  EXPECT_THAT(removed_names(files, kOnlyNewest), IsEmpty());
}

TEST(PrunePlan, AlwaysKeepsAnIntactCheckpointAndIsIdempotent) {
  std::mt19937 random(7);  // the same folders each time
  for (int round = 0; round < 500; ++round) {
    std::vector<ListedFile> files;
    std::vector<checkpoint::format::Best> best;
    const std::size_t keep_best_of_training = random() % 3;
    for (std::int64_t step = 7; step <= 84; step += 7) {
      checkpoint::format::note_validation(best, {step, 0.1 * static_cast<double>(random() % 5)}, keep_best_of_training);
      files.push_back(sound(step));
      files.back().best = best;
      files.back().state = random() % 3 == 0 ? FileState::Damaged : FileState::Committed;
    }
    std::ranges::shuffle(files, random);
    const PruneRules rules{.keep_last = static_cast<std::int64_t>(1 + random() % 3),
                           .keep_best = random() % 3,
                           .keep_every = static_cast<std::int64_t>(random() % 40)};
    const bool had_sound = std::ranges::any_of(files, is_usable_checkpoint);
    const auto decisions = prune_decisions(files, rules);
    std::vector<ListedFile> left;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (!decisions[i].is_removed) {
        left.push_back(files[i]);
      } else {
        EXPECT_EQ(files[i].state, FileState::Committed);
      }
    }
    EXPECT_EQ(std::ranges::any_of(left, is_usable_checkpoint), had_sound);
    const std::vector<PruneDecision> again = prune_decisions(left, rules);
    EXPECT_TRUE(std::ranges::none_of(again, [](const PruneDecision& decision) { return decision.is_removed; }))
        << round;
  }
}

}  // namespace
}  // namespace rollcall::checkpoint_tool
