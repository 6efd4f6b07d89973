#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "runtime/settings/launch_settings.h"
#include "runtime/storage/folders.h"
#include "runtime/storage/purge_age.h"

namespace rollcall::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kDay = 86400;

TEST(PurgeAge, CountsFromTheLaterOfChangeAndAccess) {
  EXPECT_DOUBLE_EQ(days_until_purge(100 * kDay, 10 * kDay, 20 * kDay, 90), 10);
  EXPECT_DOUBLE_EQ(days_until_purge(100 * kDay, 30 * kDay, 20 * kDay, 90), 20);
  EXPECT_DOUBLE_EQ(days_until_purge(200 * kDay, 30 * kDay, 20 * kDay, 90), -80);
}

class PurgeAgeOfFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/purgeXXXXXX";
    top_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  /// A file that was changed and read so many days ago.
  std::string file(const std::string& name, double days) const {
    const std::filesystem::path path = top_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "content";
    const timespec then{std::time(nullptr) - static_cast<std::time_t>(days * kDay), 0};
    const timespec times[] = {then, then};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  }

  std::filesystem::path top_;
};

TEST_F(PurgeAgeOfFolder, FindsTheOldestFileBelow) {
  file("new", 1);
  const std::string oldest = file("a/b/old", 80);
  std::filesystem::create_symlink("/etc", top_ / "elsewhere");
  const auto age = purge_age(top_, 90, {});
  ASSERT_TRUE(age);
  EXPECT_NEAR(*age->days_left, 10, 0.01);
  EXPECT_EQ(age->oldest, oldest);
  EXPECT_EQ(age->files, 2u);
  EXPECT_TRUE(age->complete);
}

TEST_F(PurgeAgeOfFolder, DoesNotChangeAccessOrModificationTimes) {
  const std::string path = file("a/old", 80);
  struct stat before {};
  struct stat after {};
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  ASSERT_TRUE(purge_age(top_, 90, {}));
  ASSERT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_EQ(before.st_atim.tv_sec, after.st_atim.tv_sec);
  EXPECT_EQ(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
}

TEST_F(PurgeAgeOfFolder, StopsAtItsFileAndTimeLimits) {
  for (int i = 0; i < 100; ++i) {
    file("f" + std::to_string(i), 1);
  }
  const auto few = purge_age(top_, 90, {10, std::chrono::milliseconds(60'000)});
  ASSERT_TRUE(few);
  EXPECT_FALSE(few->complete);
  EXPECT_EQ(few->files, 10u);
  const auto no_time = purge_age(top_, 90, {1'000, std::chrono::milliseconds(0)});
  ASSERT_TRUE(no_time);
  EXPECT_FALSE(no_time->complete);
}

TEST_F(PurgeAgeOfFolder, AnEmptyFolderHasNoOldestFileAndAMissingOneIsAnError) {
  const auto empty = purge_age(top_, 90, {});
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->days_left, std::nullopt);
  const auto missing = purge_age(top_ / "nowhere", 90, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::NoInput);
}

TEST_F(PurgeAgeOfFolder, TheWarningFollowsTheSettings) {
  settings::Settings settings(settings::launch_table());
  Environment environment;
  environment.set("SCRATCH", top_);
  file("old", 79.5);
  EXPECT_EQ(purge_warning(settings, environment), std::nullopt) << "no site said that it deletes anything";
  ASSERT_TRUE(settings.set("scratch.purge-days", "90", "test"));
  EXPECT_THAT(purge_warning(settings, environment).value_or(""), AllOf(HasSubstr("old"), HasSubstr("in 10 days")));
  ASSERT_TRUE(settings.set("scratch.warn-days", "5", "test"));
  EXPECT_EQ(purge_warning(settings, environment), std::nullopt);
  file("older", 100);
  EXPECT_THAT(purge_warning(settings, environment).value_or(""), HasSubstr("at any time"));
  EXPECT_EQ(purge_warning(settings, Environment()), std::nullopt) << "no SCRATCH";
}

TEST_F(PurgeAgeOfFolder, OnlyRank0SearchesForOldFiles) {
  settings::Settings settings(settings::launch_table());
  ASSERT_TRUE(settings.set("scratch.purge-days", "90", "test"));
  Environment environment;
  environment.set("SCRATCH", top_);
  file("old", 79.5);
  job::JobFacts facts;
  facts.world_size = 2;
  for (facts.rank = 0; facts.rank < facts.world_size; ++facts.rank) {
    resolve::EnvPatch patch;
    ASSERT_TRUE(prepare_folders(facts, patch, settings, environment));
    EXPECT_EQ(patch.warnings.size(), facts.rank == 0 ? 1U : 0U);
  }
}

}  // namespace
}  // namespace rollcall::storage
