#include "runtime/base/owned_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace rollcall {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kAnother = 4711;

class OwnFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/own-fileXXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::ofstream(file("victim")) << "the victim's";
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(file(name)).rdbuf();
    return text.str();
  }
  /// Opens and writes "ours"; why not, or an empty text.
  [[nodiscard]] std::string written(const std::string& name) const {
    const OpenedOutput opened = open_output(file(name), O_RDWR | O_APPEND);
    EXPECT_EQ(opened.descriptor < 0, !opened.reason.empty());
    if (opened.descriptor >= 0) {
      EXPECT_EQ(::write(opened.descriptor, "ours", 4), 4);
      ::close(opened.descriptor);
    }
    return opened.reason;
  }

  fs::path folder_;
};

TEST_F(OwnFile, IsCreatedAndAppendedTo) {
  EXPECT_EQ(written("new"), "");
  EXPECT_EQ(written("new"), "");
  EXPECT_EQ(content("new"), "oursours");
}

TEST_F(OwnFile, RefusesSymbolicLinks) {
  fs::create_symlink(file("victim"), file("link"));
  fs::create_symlink(file("absent"), file("dangling"));
  EXPECT_EQ(written("link"), "is a link");
  EXPECT_EQ(written("dangling"), "is a link");
  EXPECT_EQ(content("victim"), "the victim's");
  EXPECT_FALSE(fs::exists(file("absent")));
}

TEST_F(OwnFile, RefusesAFileWithASecondHardLink) {
  fs::create_hard_link(file("victim"), file("second name"));
  EXPECT_NE(written("second name").find("has a second name"), std::string::npos);
  EXPECT_EQ(content("victim"), "the victim's");
}

TEST_F(OwnFile, RefusesPipesAndFolders) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0666), 0);
  fs::create_directory(file("folder"));
  EXPECT_EQ(written("pipe"), "is not a regular file");
  EXPECT_EQ(written("folder"), "Is a directory");
}

TEST_F(OwnFile, RefusesAFileOfAnotherUser) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of another user";
  }
  ASSERT_EQ(::chown(file("victim").c_str(), kAnother, kAnother), 0);
  EXPECT_EQ(written("victim"), "belongs to user 4711");
  EXPECT_EQ(content("victim"), "the victim's");
  // As where everybody may make files: the kernel refuses first.
  ASSERT_EQ(::chmod(folder_.c_str(), 01777), 0);
  ASSERT_EQ(::chown(folder_.c_str(), kAnother + 1, 0), 0);
  EXPECT_EQ(written("victim"), "belongs to user 4711");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1)
      << "the file that asked for this user's number is gone";
}

TEST_F(OwnFile, CreateBesideUsesAUniqueNameEachTime) {
  const OpenedOutput one = create_beside(file("page"), O_WRONLY);
  const OpenedOutput two = create_beside(file("page"), O_WRONLY, 0600);
  ASSERT_GE(one.descriptor, 0) << one.reason;
  ASSERT_GE(two.descriptor, 0) << two.reason;
  EXPECT_NE(one.path, two.path);
  EXPECT_TRUE(one.path.starts_with(file("page.")));
  EXPECT_EQ(fs::status(two.path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  ::close(one.descriptor);
  ::close(two.descriptor);
  const OpenedOutput nowhere = create_beside(file("absent/page"), O_WRONLY);
  EXPECT_EQ(nowhere.reason, "No such file or directory");
  EXPECT_EQ(nowhere.error_number, ENOENT);
}

TEST(OtherWriters, AreNamedButNotTheOwnersPrivateGroup) {
  struct stat status {};
  status.st_uid = ::geteuid();
  status.st_gid = ::geteuid();
  status.st_mode = 0775;
  EXPECT_EQ(other_writers(status), "");
  status.st_gid = ::geteuid() + 1;
  EXPECT_EQ(other_writers(status), "members of group " + std::to_string(::geteuid() + 1));
  status.st_mode = 0755;
  EXPECT_EQ(other_writers(status), "");
  status.st_mode = 0757;
  EXPECT_EQ(other_writers(status), "everybody");
}

TEST(WhatToTry, FollowsFromTheErrorOfTheSystem) {
  for (const auto& [error_number, action] :
       std::vector<std::pair<int, std::string>>{{ENOSPC, "freeing space or quota there, or naming another folder"},
                                                {EDQUOT, "freeing space or quota there, or naming another folder"},
                                                {EACCES, "checking your permissions there, or naming another folder"},
                                                {EPERM, "checking your permissions there, or naming another folder"},
                                                {EROFS, "checking your permissions there, or naming another folder"},
                                                {EIO, "having the file system checked, or naming another folder"},
                                                {ESTALE, "having the file system checked, or naming another folder"},
                                                {EISDIR, "removing what is in the way, or naming another folder"},
                                                {EMFILE, "raising ulimit -n"},
                                                {ENOENT, "naming another folder"},
                                                {0, "naming another folder"}}) {
    EXPECT_EQ(what_to_try(error_number, "naming another folder"), action) << error_number;
  }
}

TEST(FolderOf, IsThePathUpToTheLastSlash) {
  EXPECT_EQ(folder_of("a/b"), "a/");
  EXPECT_EQ(folder_of("/b"), "/");
  EXPECT_EQ(folder_of("b"), ".");
}

}  // namespace
}  // namespace rollcall
