#include "trainer/checkpoint/background/commit.h"

#include <gmock/gmock.h>
#include <sys/mount.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "tests/trainer/checkpoint/format/sample_content.h"

namespace rollcall::checkpoint::background {
namespace {

namespace fs = std::filesystem;
using format::checkpoint_name;
using format::SampleContent;
using format::TemporaryFolder;
using testing::ElementsAre;

/// Saves of a run that keeps the newest checkpoint alone, and the best.
class Commit : public testing::Test {
 protected:
  Result<void> save(std::int64_t step, std::int64_t best_step = -1) {
    format::SingleRank alone;
    return commit({.folder = folder_.path(),
                   .step = step,
                   .best_step = best_step,
                   .retention = {.keep_last = 1},
                   .last_own_step = std::exchange(last_own_step_, std::nullopt)},
                  SampleContent(step).content, {}, alone);
  }

  TemporaryFolder folder_;
  std::optional<std::int64_t> last_own_step_;  ///< of the next save
};

TEST_F(Commit, RemovesOlderCheckpointsAfterTheNewOne) {
  ASSERT_TRUE(save(10));
  ASSERT_TRUE(save(20));
  EXPECT_THAT(folder_.names(), ElementsAre(checkpoint_name(20)));
}

TEST_F(Commit, RemovesNothingWhenItFails) {
  ASSERT_TRUE(save(10));
  ASSERT_TRUE(format::write_checkpoint(folder_.file(checkpoint_name(5)), SampleContent(5).content, {}));
  fs::create_directories(folder_.file(checkpoint_name(20)) + "/in the way");
  const Result<void> failed = save(20);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::CannotCreate);
  EXPECT_TRUE(format::verify_file(folder_.file(checkpoint_name(10)), format::VerifyLevel::Full));
  EXPECT_TRUE(format::verify_file(folder_.file(checkpoint_name(5)), format::VerifyLevel::Full));
}

/// A run that was suspended in the middle of a save, while another run took over its folder and saved there.
class CommitAfterLosingTheLease : public Commit {
 protected:
  /// A save of step 20 in whose course the folder is lost: so many times it is still found to be this run's.
  Result<void> save_and_lose(int times_ours, const std::string& stage = "") {
    format::SingleRank alone;
    int asked = 0;
    return commit({.folder = folder_.path(),
                   .step = 20,
                   .retention = {.keep_last = 1},
                   .staging_dir = stage,
                   .check_ownership = [&]() -> Result<void> {
                     return asked++ < times_ours ? Result<void>()
                                                 : fail("lease", "", "lost", "", ErrorKind::CannotCreate);
                   }},
                  SampleContent(20).content, {}, alone);
  }
};

TEST_F(CommitAfterLosingTheLease, ChangesNothingInTheFolder) {
  ASSERT_TRUE(save(30));
  const Result<void> lost = save_and_lose(0);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().setting, "lease");
  EXPECT_THAT(folder_.names(), ElementsAre(checkpoint_name(30)));
}

TEST_F(CommitAfterLosingTheLease, RenamesNoFileIntoTheFolder) {
  const Result<void> lost = save_and_lose(1);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().setting, "lease");
  EXPECT_THAT(folder_.names(), ElementsAre());
}

TEST_F(CommitAfterLosingTheLease, PublishesNoStagedFile) {
  const TemporaryFolder stage;
  const Result<void> lost = save_and_lose(1, stage.path());
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().setting, "lease");
  EXPECT_THAT(folder_.names(), ElementsAre());
}

TEST_F(CommitAfterLosingTheLease, NeitherSupersedesNorRemovesFiles) {
  ASSERT_TRUE(save(10));
  EXPECT_TRUE(save_and_lose(2)) << "the file has its name: it is saved";
  EXPECT_THAT(folder_.names(), ElementsAre(checkpoint_name(10), checkpoint_name(20)));
}

TEST_F(Commit, KeepsTheBestAndLinksToIt) {
  ASSERT_TRUE(save(10, 10));
  ASSERT_TRUE(save(20, 10));
  ASSERT_TRUE(save(30, 10));
  EXPECT_THAT(folder_.names(), ElementsAre("best.h5", checkpoint_name(10), checkpoint_name(30)));
  EXPECT_EQ(fs::read_symlink(folder_.file("best.h5")), checkpoint_name(10));
  ASSERT_TRUE(save(40, 40));
  EXPECT_THAT(folder_.names(), ElementsAre("best.h5", checkpoint_name(40)));
  EXPECT_EQ(fs::read_symlink(folder_.file("best.h5")), checkpoint_name(40));
}

TEST_F(Commit, FirstOfARunSupersedesNewerStepsOfAnotherTraining) {
  ASSERT_TRUE(save(10));
  ASSERT_TRUE(save(20));
  last_own_step_ = 10;
  ASSERT_TRUE(save(30));
  EXPECT_THAT(folder_.names(), ElementsAre(checkpoint_name(20) + ".superseded", checkpoint_name(30)));
}

TEST_F(Commit, FailsIfAnOldCheckpointCannotBeSuperseded) {
  ASSERT_TRUE(save(10));
  const std::string sound = folder_.file(checkpoint_name(10));
  // What something is mounted on cannot be renamed.
  if (::mount(sound.c_str(), sound.c_str(), "", MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "mounting is refused here";
  }
  last_own_step_ = -1;
  const Result<void> refused = save(20);
  EXPECT_EQ(::umount(sound.c_str()), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::InputOutput);
  EXPECT_THAT(folder_.names(), ElementsAre(checkpoint_name(10)));
  last_own_step_ = -1;
  ASSERT_TRUE(save(20)) << "the next try";
  EXPECT_THAT(folder_.names(), ElementsAre(checkpoint_name(10) + ".superseded", checkpoint_name(20)));
}

}  // namespace
}  // namespace rollcall::checkpoint::background
