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

TEST_F(OpenLog, AddsToItsFile) {
  for (int time = 0; time < 2; ++time) {
    const Result<int> log = open_log(folder / "stdout.log");
    ASSERT_TRUE(log) << log.error().message();
    EXPECT_EQ(::write(*log, "a line\n", 7), 7);
    ::close(*log);
  }
  EXPECT_EQ(fs::file_size(folder / "stdout.log"), 14);
}

TEST_F(OpenLog, FollowsNoLink) {
  std::ofstream(folder / "another") << "x";
  fs::create_symlink(folder / "another", folder / "stdout.log");
  const Result<int> log = open_log(folder / "stdout.log");
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().exit_code, ExitCode::CannotCreate);
  EXPECT_THAT(log.error().message(), testing::HasSubstr("stdout.log: cannot be made: is a link"));
  EXPECT_EQ(fs::file_size(folder / "another"), 1);
}

}  // namespace
}  // namespace rollcall::elastic
