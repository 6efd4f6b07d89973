#include "trainer/metrics/metrics_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace rollcall::metrics {
namespace {

class MetricsWriterTest : public testing::Test {
 protected:
  MetricsWriterTest() {
    std::string pattern = testing::TempDir() + "rollcall-metrics-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~MetricsWriterTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return folder_ + "/run/metrics.jsonl"; }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::ifstream file(path());
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) {
      found.push_back(line);
    }
    return found;
  }

  std::string folder_;
};

TEST_F(MetricsWriterTest, WritesOneObjectPerLineInTheGivenOrder) {
  auto writer = MetricsWriter::open(path());
  ASSERT_TRUE(writer) << writer.error().message();
  ASSERT_TRUE(writer->write({{"step", std::int64_t{3}}, {"loss", 0.1}, {"ok", true}, {"host", std::string("a\"b\n")}}));
  EXPECT_EQ(lines(), std::vector<std::string>{R"({"step":3,"loss":0.1,"ok":true,"host":"a\"b\n"})"});
}

TEST_F(MetricsWriterTest, WritesNanAsNullAndReplacesInvalidUtf8) {
  auto writer = MetricsWriter::open(path());
  ASSERT_TRUE(writer->write({{"loss", std::nan("")}, {"host", std::string("\xff")}}));
  const auto record = nlohmann::json::parse(lines().at(0));
  EXPECT_TRUE(record["loss"].is_null());
  EXPECT_TRUE(record["host"].is_string());
}

TEST_F(MetricsWriterTest, ContinuesAnExistingFile) {
  ASSERT_TRUE(MetricsWriter::open(path())->write({{"step", std::int64_t{1}}}));
  auto writer = MetricsWriter::open(path());
  ASSERT_TRUE(writer->write({{"step", std::int64_t{2}}}));
  EXPECT_EQ(lines(), (std::vector<std::string>{R"({"step":1})", R"({"step":2})"}));
}

TEST_F(MetricsWriterTest, TwoWritersDoNotOverwriteEachOther) {
  auto first = MetricsWriter::open(path());
  auto second = MetricsWriter::open(path());
  ASSERT_TRUE(first->write({{"step", std::int64_t{1}}}));
  ASSERT_TRUE(second->write({{"step", std::int64_t{2}}}));
  ASSERT_TRUE(first->write({{"step", std::int64_t{3}}}));
  EXPECT_EQ(lines(), (std::vector<std::string>{R"({"step":1})", R"({"step":2})", R"({"step":3})"}));
}

using MakeLink = void (*)(const std::filesystem::path&, const std::filesystem::path&);

TEST_F(MetricsWriterTest, DoesNotWriteThroughALink) {
  std::filesystem::create_directories(folder_ + "/run");
  std::ofstream(folder_ + "/victim") << "mine\n";
  for (const MakeLink make : {MakeLink{std::filesystem::create_symlink}, MakeLink{std::filesystem::create_hard_link}}) {
    make(folder_ + "/victim", path());
    const auto writer = MetricsWriter::open(path());
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.error().kind, ErrorKind::CannotCreate);
    EXPECT_EQ(lines(), std::vector<std::string>{"mine"});
    std::filesystem::remove(path());
  }
}

TEST_F(MetricsWriterTest, WritesRawArraysAndObjectsUnchanged) {
  auto writer = MetricsWriter::open(path());
  ASSERT_TRUE(writer->write({{"hosts", RawJson{R"(["a",{"b":1}])"}}, {"broken", RawJson{"[1,"}}}));
  EXPECT_EQ(lines(), std::vector<std::string>{R"({"hosts":["a",{"b":1}],"broken":null})"});
}

TEST_F(MetricsWriterTest, StartsANewLineAfterAnUnfinishedOne) {
  std::filesystem::create_directories(folder_ + "/run");
  std::ofstream(path()) << R"({"step":1,"lo)";
  auto writer = MetricsWriter::open(path());
  ASSERT_TRUE(writer->write({{"step", std::int64_t{2}}}));
  EXPECT_EQ(lines().at(1), R"({"step":2})");
}

TEST_F(MetricsWriterTest, ReportsAFolderThatCannotBeCreated) {
  std::ofstream(folder_ + "/file") << "x";
  const auto writer = MetricsWriter::open(folder_ + "/file/metrics.jsonl");
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().kind, ErrorKind::CannotCreate);
}

/// The file may not grow beyond what it has and half of the next line, as on a disk that is nearly full.
TEST_F(MetricsWriterTest, EndsATruncatedLineOnceThereIsSpaceAgain) {
  auto writer = MetricsWriter::open(path());
  ASSERT_TRUE(writer->write({{"step", std::int64_t{1}}}));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{std::filesystem::file_size(path()) + 5, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto cut_off = writer->write({{"step", std::int64_t{2}}});
  ASSERT_FALSE(cut_off);
  EXPECT_EQ(cut_off.error().kind, ErrorKind::InputOutput);
  EXPECT_FALSE(writer->write({{"step", std::int64_t{3}}}));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, signal_before);
  ASSERT_TRUE(writer->write({{"step", std::int64_t{4}}}));
  ASSERT_TRUE(writer->write({{"step", std::int64_t{5}}}));
  EXPECT_EQ(lines(), (std::vector<std::string>{R"({"step":1})", R"({"ste)", R"({"step":4})", R"({"step":5})"}));
}

}  // namespace
}  // namespace rollcall::metrics
