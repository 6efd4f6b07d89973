#include "runtime/base/this_process.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace rollcall {
namespace {

TEST(ThisProcess, CountsTheCpusThatTheThreadIsBoundTo) {
  const std::uint32_t before = number_of_cpus();
  EXPECT_GE(before, 1U);
  std::uint32_t bound = 0;
  std::thread([&bound] {  // a thread of its own, so that the binding ends with it
    cpu_set_t mine;
    ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mine)) {
        CPU_SET(cpu, &one);
        break;
      }
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    bound = number_of_cpus();
  })
      .join();
  EXPECT_EQ(bound, 1U);
  EXPECT_EQ(number_of_cpus(), before);
  EXPECT_EQ(cpus_of_this_process().size(), before);
}

/// PREFIX/bin/program and PREFIX/share/rollcall/site_config/a.toml, closed to others.
class FindInstalled : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/aboveXXXXXX";
    top_ = std::filesystem::canonical(mkdtemp(pattern.data()));
    std::filesystem::create_directories(top_ / "prefix/bin");
    std::ofstream(top_ / "prefix/bin/program") << "";
    plant(top_ / "prefix");
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  static void plant(const std::filesystem::path& prefix) {
    std::filesystem::create_directories(prefix / "share/rollcall/site_config");
    std::ofstream(prefix / "share/rollcall/site_config/a.toml") << "";
    for (const char* name : {"share", "share/rollcall", "share/rollcall/site_config"}) {
      change(prefix / name, 0755);
    }
    change(prefix / "share/rollcall/site_config/a.toml", 0644);
  }
  static void change(const std::filesystem::path& path, mode_t mode) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0) << path;
  }
  [[nodiscard]] FoundInstalled look() const {
    return find_installed(top_ / "prefix/bin/program", "share/rollcall/site_config");
  }
  [[nodiscard]] std::string found() const { return look().file.value_or("").string(); }

  std::filesystem::path top_;
};

TEST_F(FindInstalled, FindsFilesOfTheSamePrefix) {
  EXPECT_EQ(found(), top_ / "prefix/share/rollcall/site_config");
  EXPECT_FALSE(find_installed(top_ / "prefix/bin/program", "share/nothing").file);
  const auto placed = top_ / "prefix/lib/x86_64-linux-gnu/rollcall/22.05-1c291ca3/bin";  // by `install --site`
  std::filesystem::create_directories(placed);
  std::ofstream(placed / "program");
  EXPECT_EQ(find_installed(placed / "program", "share/rollcall/site_config").file.value_or(""), found());
  EXPECT_FALSE(find_installed(top_ / "prefix/bin/none", "share/rollcall/site_config").file);
  EXPECT_EQ(look().passed_over, "");
}

TEST_F(FindInstalled, StopsAtAWorldWritableFolder) {
  std::filesystem::remove_all(top_ / "prefix/share");
  plant(top_);
  EXPECT_EQ(found(), top_ / "share/rollcall/site_config");
  change(top_, 01777);  // as /tmp is
  EXPECT_EQ(found(), "");
  change(top_, 0755);
  change(top_ / "prefix", 0757);
  EXPECT_EQ(found(), "") << "nor does it go on above";
}

TEST_F(FindInstalled, DoesNotReportFilesThatOtherUsersPlacedAbove) {
  std::filesystem::remove_all(top_ / "prefix/share");
  change(top_, 01777);
  EXPECT_EQ(look().passed_over, "") << "there is nothing";
  std::filesystem::create_directory_symlink("/proc/self", top_ / "share");
  EXPECT_EQ(look().passed_over, "") << "a link in a folder of others is not followed";
  std::filesystem::remove(top_ / "share");
  plant(top_);
  EXPECT_EQ(look().passed_over, "others may write to " + top_.string()) << "its owner's own";
  if (geteuid() == 0) {
    ASSERT_EQ(chown((top_ / "share/rollcall/site_config").c_str(), 4711, 4711), 0);
    EXPECT_EQ(look().passed_over, "");
  }
}

TEST_F(FindInstalled, IgnoresFilesThatOthersCanWrite) {
  for (const char* name : {"bin", "share", "share/rollcall", "share/rollcall/site_config"}) {
    change(top_ / "prefix" / name, 0757);
    EXPECT_EQ(found(), "") << name;
    EXPECT_EQ(look().passed_over, "others may write to " + (top_ / "prefix" / name).string());
    change(top_ / "prefix" / name, 0755);
  }
  change(top_ / "prefix/share/rollcall/site_config/a.toml", 0646);
  EXPECT_EQ(found(), "");
  change(top_ / "prefix/share/rollcall/site_config/a.toml", 0644);
  EXPECT_NE(found(), "");
}

TEST_F(FindInstalled, TheFolderBehindALinkIsLookedAtToo) {
  const std::filesystem::path prefix = top_ / "prefix";
  const auto look_for_other = [&] { return find_installed(prefix / "bin/program", "other"); };
  const auto other_program = [&] { return look_for_other().file.value_or("").string(); };
  std::filesystem::create_directories(prefix / "lib/trainer");
  std::ofstream(prefix / "lib/trainer/other") << "";
  std::filesystem::create_symlink("../lib/trainer/other", prefix / "bin/other");
  EXPECT_EQ(other_program(), prefix / "bin/other");
  change(prefix / "bin", 0757);
  EXPECT_EQ(look_for_other().passed_over, "others may write to " + (prefix / "bin").string()) << "its owner's link";
  change(prefix / "bin", 0755);
  for (const char* name : {"lib", "lib/trainer"}) {
    change(prefix / name, 0757);
    EXPECT_EQ(other_program(), "") << name;
    change(prefix / name, 0755);
  }
}

TEST_F(FindInstalled, AcceptsGroupWriteAccessOfThePrivateGroupOnly) {
  if (chown((top_ / "prefix").c_str(), static_cast<uid_t>(-1), geteuid()) != 0) {
    GTEST_SKIP() << "this user has no group of its own";
  }
  change(top_ / "prefix", 0775);
  EXPECT_NE(found(), "") << "a checkout made with a umask of 0002";
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can give a folder to another";
  }
  ASSERT_EQ(chown((top_ / "prefix").c_str(), 0, 4711), 0);
  EXPECT_EQ(found(), "");
}

TEST_F(FindInstalled, AcceptsOnlyFilesOfRootOrTheProgramsOwner) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can give a file to another";
  }
  const auto give = [&](const char* name, uid_t user) {
    ASSERT_EQ(chown((top_ / "prefix" / name).c_str(), user, user), 0) << name;
  };
  for (const char* name : {"bin", "", "share", "share/rollcall/site_config", "share/rollcall/site_config/a.toml"}) {
    give(name, 4711);
    EXPECT_EQ(found(), "") << name;
    EXPECT_EQ(look().passed_over.find("user 4711 owns /"), 0U) << look().passed_over;
    give("bin/program", 4711);
    EXPECT_NE(found(), "") << name << " is the program's owner's";
    give(name, 0);
    EXPECT_NE(found(), "") << "all else is root's";
    give("bin/program", 0);
  }
}

}  // namespace
}  // namespace rollcall
