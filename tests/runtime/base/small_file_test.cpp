#include "runtime/base/small_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace rollcall {
namespace {

class SmallFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/small-fileXXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  FileReading read(const std::string& name) { return read_small_file(folder_ / name, 10, content_); }

  std::filesystem::path folder_;
  std::string content_;
};

TEST_F(SmallFile, IsReadCompletely) {
  std::ofstream(folder_ / "ten") << "0123456789";
  EXPECT_EQ(read("ten").reason, "");
  EXPECT_EQ(content_, "0123456789");
}

TEST_F(SmallFile, ReadsProcFilesThatReportNoSize) {
  EXPECT_EQ(read_small_file("/proc/self/comm", 100, content_).reason, "");
  EXPECT_NE(content_, "");
}

TEST_F(SmallFile, RefusesAFileAboveTheSizeLimit) {
  std::ofstream(folder_ / "eleven") << "0123456789a";
  EXPECT_EQ(read("eleven").reason, "is longer than 10 bytes");
  EXPECT_EQ(read("eleven").error_number, 0);
}

TEST_F(SmallFile, RefusesPipesDevicesAndFolders) {
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder_ / "zeros");
  EXPECT_EQ(read("fifo").reason, "is not a regular file");  // at once, though nobody writes
  EXPECT_EQ(read("zeros").reason, "is not a regular file");
  EXPECT_EQ(read(".").error_number, EISDIR);
  EXPECT_EQ(read("absent").error_number, ENOENT);
  EXPECT_EQ(content_, "");
}

TEST_F(SmallFile, MayExistIsTrueUnlessThePathIsKnownToBeAbsent) {
  std::ofstream(folder_ / "file") << "x";
  std::filesystem::create_symlink(folder_ / "loop",
                                  folder_ / "loop");  // as a folder that may not be entered: no ENOENT
  EXPECT_TRUE(may_exist(folder_ / "file"));
  EXPECT_TRUE(may_exist(folder_ / "loop"));
  EXPECT_FALSE(may_exist(folder_ / "absent"));
  EXPECT_FALSE(may_exist(folder_ / "file" / "below"));
}

}  // namespace
}  // namespace rollcall
