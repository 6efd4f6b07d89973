#include "runtime/elastic/log_folders.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>

namespace rollcall::elastic {
namespace {

namespace fs = std::filesystem;

class OpenLog : public testing::Test {
 protected:
  OpenLog() {
    std::string name = testing::TempDir() + "rollcall-XXXXXX";
    folder = mkdtemp(name.data());
  }
  ~OpenLog() override { fs::remove_all(folder); }

  fs::path folder;
};

TEST_F(OpenLog, AppendsToItsFile) {
  for (int time = 0; time < 2; ++time) {
    const Result<int> log = open_log(folder / "stdout.log");
    ASSERT_TRUE(log) << log.error().message();
    EXPECT_EQ(::write(*log, "a line\n", 7), 7);
    ::close(*log);
  }
  EXPECT_EQ(fs::file_size(folder / "stdout.log"), 14);
}

TEST_F(OpenLog, DoesNotFollowLinks) {
  std::ofstream(folder / "another") << "x";
  fs::create_symlink(folder / "another", folder / "stdout.log");
  const Result<int> log = open_log(folder / "stdout.log");
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().kind, ErrorKind::CannotCreate);
  EXPECT_THAT(log.error().message(), testing::HasSubstr("stdout.log: cannot be created: is a link"));
  EXPECT_EQ(fs::file_size(folder / "another"), 1);
}

using LogFoldersTest = OpenLog;

TEST_F(LogFoldersTest, CreatesNewFoldersWhenItsOwnWereReplaced) {
  fs::path replaced;
  {
    Result<LogFolders> folders = LogFolders::create({}, "id", folder);
    ASSERT_TRUE(folders) << folders.error().message();
    const fs::path first = folders->next_attempt(1)->workers[0].error;
    EXPECT_TRUE(fs::is_directory(first.parent_path()));
    replaced = folders->run_folder();
    fs::remove_all(replaced.parent_path());
    fs::create_directories(replaced);

    const Result<AttemptFiles> next = folders->next_attempt(1);
    ASSERT_TRUE(next) << next.error().message();
    const fs::path second = next->workers[0].error;
    EXPECT_TRUE(fs::is_directory(second.parent_path()));
    EXPECT_NE(folders->run_folder().parent_path(), replaced.parent_path());
    EXPECT_EQ(second.parent_path().parent_path().filename(), "attempt_1");
    EXPECT_EQ(fs::status(folders->run_folder()).permissions(), fs::perms::owner_all);
  }
  EXPECT_TRUE(fs::is_empty(replaced));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1)
      << "the run's own ones are gone";
}

TEST_F(LogFoldersTest, ReusesItsFoldersForAllAttempts) {
  Result<LogFolders> folders = LogFolders::create({}, "id", folder);
  ASSERT_TRUE(folders);
  const fs::path first = folders->run_folder();
  ASSERT_TRUE(folders->next_attempt(2));
  ASSERT_TRUE(folders->next_attempt(2));
  EXPECT_EQ(folders->run_folder(), first);
  EXPECT_TRUE(fs::is_directory(first / "attempt_1" / "1"));
}

}  // namespace
}  // namespace rollcall::elastic
