#include "trainer/checkpoint/background/commit.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/format/reader.h"

namespace rollcall::checkpoint::background {
namespace {

namespace fs = std::filesystem;
using format::TemporaryFolder;

/// A stage and a folder of checkpoints.
class Stage : public testing::Test {
 protected:
  void write(const std::string& folder, std::int64_t step) {
    const float number = static_cast<float>(step);
    format::Content content;
    content.tensors.push_back(
        {"/model/weight", "weight", format::DType::Float32, {1}, std::as_bytes(std::span(&number, 1))});
    ASSERT_TRUE(format::write_checkpoint(folder + "/" + format::checkpoint_name(step), content, {}));
  }
  static std::vector<std::int64_t> steps(const std::string& folder) {
    std::vector<std::int64_t> found;
    const auto all = format::list_checkpoints(folder);
    EXPECT_TRUE(all);
    for (const auto& listed : *all) {
      EXPECT_TRUE(format::verify_file(listed.path, format::VerifyLevel::Full));
      found.push_back(listed.step);
    }
    return found;
  }
  static std::size_t files(const std::string& folder) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  TemporaryFolder stage_;
  TemporaryFolder folder_;
};

TEST_F(Stage, IsEmptyAfterTheCommit) {
  const float number = 1;
  format::Content content;
  content.tensors.push_back(
      {"/model/weight", "weight", format::DType::Float32, {1}, std::as_bytes(std::span(&number, 1))});
  format::SingleRank alone;
  ASSERT_TRUE(commit({.folder = folder_.path(), .step = 7, .staging_dir = stage_.path()}, content, {}, alone));
  EXPECT_EQ(steps(folder_.path()), std::vector<std::int64_t>{7});
  EXPECT_EQ(files(stage_.path()), 0U);
  EXPECT_EQ(files(folder_.path()), 1U);
}

TEST_F(Stage, OfAKilledRunIsPublishedByTheNext) {
  write(folder_.path(), 10);
  write(stage_.path(), 20);
  const auto published = publish_left_over(stage_.path(), folder_.path());
  ASSERT_TRUE(published);
  EXPECT_EQ(published->step, 20);
  EXPECT_EQ(steps(folder_.path()), (std::vector<std::int64_t>{20, 10}));
  EXPECT_EQ(files(stage_.path()), 0U);
}

TEST_F(Stage, IsPublishedDespiteANewerCheckpointOfAnotherUser) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of another user";
  }
  write(folder_.path(), 99);
  ASSERT_EQ(::chown((folder_.path() + "/" + format::checkpoint_name(99)).c_str(), 4711, 4711), 0);
  write(stage_.path(), 20);
  const auto published = publish_left_over(stage_.path(), folder_.path());
  ASSERT_TRUE(published);
  EXPECT_EQ(published->step, 20);
}

TEST_F(Stage, PublishedOrDamagedCheckpointsAreRemoved) {
  write(folder_.path(), 10);
  write(stage_.path(), 10);
  std::ofstream(stage_.path() + "/" + format::checkpoint_name(30)) << "torn";
  const auto published = publish_left_over(stage_.path(), folder_.path());
  ASSERT_TRUE(published);
  EXPECT_FALSE(published->step);
  EXPECT_EQ(steps(folder_.path()), std::vector<std::int64_t>{10});
  EXPECT_EQ(files(stage_.path()), 0U);
}

TEST_F(Stage, OlderThanTheCheckpointsInTheFolderIsNotPublished) {
  write(stage_.path(), 1000);
  const std::time_t then = std::time(nullptr);
  while (std::time(nullptr) == then) {  // a checkpoint tells its time in seconds
    std::this_thread::yield();
  }
  write(folder_.path(), 900);
  const auto left_over = publish_left_over(stage_.path(), folder_.path());
  ASSERT_TRUE(left_over);
  EXPECT_FALSE(left_over->step);
  EXPECT_EQ(left_over->passed_over, 1000);
  EXPECT_EQ(steps(folder_.path()), std::vector<std::int64_t>{900});
}

TEST_F(Stage, KeepsOnlyTheNewestUnpublishedCheckpoint) {
  format::SingleRank alone;
  const Result<void> refused = fail("checkpoint", "", "is not ours for a while", "", ErrorKind::InputOutput);
  for (const std::int64_t step : {10, 20, 30}) {
    Destination destination{.folder = folder_.path(), .step = step, .staging_dir = stage_.path()};
    int asked = 0;
    destination.check_ownership = [&asked, &refused]() -> Result<void> {
      return asked++ == 0 ? Result<void>() : refused;
    };
    EXPECT_FALSE(commit(destination, {}, {}, alone));
  }
  EXPECT_EQ(steps(stage_.path()), std::vector<std::int64_t>{30});
  EXPECT_EQ(files(folder_.path()), 0U);
}

TEST_F(Stage, KeepsAnUnpublishedCheckpointUntilTheNextIsComplete) {
  format::SingleRank alone;
  write(stage_.path(), 7);  // another run's
  int asked = 0;
  Destination destination{.folder = folder_.path(), .step = 10, .staging_dir = stage_.path(), .last_own_step = -1};
  destination.staging_cleared = std::make_shared<bool>(false);
  destination.check_ownership = [&asked]() -> Result<void> {
    return asked++ == 0 ? Result<void>()
                        : fail("checkpoint", "", "is not ours for a while", "", ErrorKind::InputOutput);
  };
  EXPECT_FALSE(commit(destination, {}, {}, alone));
  EXPECT_EQ(steps(stage_.path()), std::vector<std::int64_t>{10});
  format::Content twice;
  twice.values["/a"] = std::int64_t{1};
  twice.tensors.push_back({"/a", "a", format::DType::Float32, {0}, {}});
  destination.step = 20;
  destination.check_ownership = {};
  EXPECT_FALSE(commit(destination, twice, {}, alone));
  EXPECT_EQ(steps(stage_.path()), std::vector<std::int64_t>{10});
}

TEST_F(Stage, KeepsACheckpointThatCannotBePublished) {
  write(stage_.path(), 20);
  fs::create_directories(fs::path(folder_.path()) / format::checkpoint_name(20) / "in the way");
  EXPECT_FALSE(publish(stage_.path(), folder_.path(), 20));
  EXPECT_EQ(steps(stage_.path()), std::vector<std::int64_t>{20});
  EXPECT_EQ(files(folder_.path()), 1U) << "a temporary file is left";
}

TEST_F(Stage, HasASubfolderForEachCheckpointFolder) {
  EXPECT_EQ(staging_folder("/dev/shm", "/scratch/a"), staging_folder("/dev/shm", "/scratch/b/../a"));
  EXPECT_NE(staging_folder("/dev/shm", "/scratch/a"), staging_folder("/dev/shm", "/scratch/b"));
}

}  // namespace
}  // namespace rollcall::checkpoint::background
