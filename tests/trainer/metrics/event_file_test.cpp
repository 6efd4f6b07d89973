#include "trainer/metrics/tensorboard/event_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "trainer/metrics/tensorboard/event.h"

namespace rollcall::metrics::tensorboard {
namespace {

class EventFileTest : public testing::Test {
 protected:
  EventFileTest() {
    std::string pattern = testing::TempDir() + "rollcall-events-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~EventFileTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] static std::string content(const EventFile& file) {
    std::ifstream stream(file.path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::string folder_;
};

TEST_F(EventFileTest, StartsWithItsVersionAndHoldsAllWrittenEvents) {
  auto file = EventFile::create(folder_ + "/run/tensorboard", 1700000000.5);
  ASSERT_TRUE(file) << file.error().message();
  const std::string begin = framed(encode_file_version(1700000000.5));
  EXPECT_EQ(content(*file), begin);
  ASSERT_TRUE(file->write("first"));
  EXPECT_EQ(content(*file), begin + framed("first"));
  ASSERT_TRUE(file->write("second"));
  EXPECT_EQ(content(*file), begin + framed("first") + framed("second"));
}

TEST_F(EventFileTest, FileNamesSortByTime) {
  std::vector<std::string> names;
  for (const double time : {999999999.0, 1000000000.0, 1700000000.0}) {
    const auto file = EventFile::create(folder_, time);
    ASSERT_TRUE(file);
    names.push_back(std::filesystem::path(file->path()).filename());
  }
  EXPECT_LT(names[0], names[1]);
  EXPECT_LT(names[1], names[2]);
  EXPECT_TRUE(names[0].starts_with("events.out.tfevents.0999999999."));
}

TEST_F(EventFileTest, ReportsAFolderThatCannotBeCreated) {
  std::ofstream(folder_ + "/file") << "x";
  const auto file = EventFile::create(folder_ + "/file", 1);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::CannotCreate);
}

TEST_F(EventFileTest, DoesNotWriteThroughALink) {
  std::string path;
  {
    const auto file = EventFile::create(folder_, 1);
    ASSERT_TRUE(file);
    path = file->path();
  }
  std::filesystem::remove(path);
  std::ofstream(folder_ + "/victim") << "mine";
  std::filesystem::create_symlink(folder_ + "/victim", path);
  EXPECT_FALSE(EventFile::create(folder_, 1));
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/victim"), 4);
}

/// The file may not grow beyond what it has and a part of the next event, as on a disk that is nearly full.
TEST_F(EventFileTest, TruncatesAPartiallyWrittenEvent) {
  auto file = EventFile::create(folder_, 1);
  ASSERT_TRUE(file->write("first"));
  const std::string before = content(*file);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{before.size() + 9, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto cut_off = file->write("second");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, signal_before);
  ASSERT_FALSE(cut_off);
  EXPECT_EQ(cut_off.error().kind, ErrorKind::InputOutput);
  EXPECT_EQ(content(*file), before);
  ASSERT_TRUE(file->write("third"));
  EXPECT_EQ(content(*file), before + framed("third"));
}

}  // namespace
}  // namespace rollcall::metrics::tensorboard
