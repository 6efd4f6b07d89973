#include "runtime/base/trusted_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace rollcall {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kStranger = 4711;

/// TOP/etc/site.toml and TOP/link -> etc, under folders that only root and this user may write to, so not /tmp.
class ReadTrustedFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::string(::geteuid() == 0 ? "/run" : std::getenv("HOME")) + "/trusted-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = fs::canonical(pattern);
    fs::create_directory(top_ / "etc");
    std::ofstream(top_ / "etc/site.toml") << "threads = 3\n";
    fs::create_symlink("etc", top_ / "link");
    change("", 0755);
    change("etc", 0755);
    change("etc/site.toml", 0644);
    if (!refusal().empty()) {
      GTEST_SKIP() << refusal();
    }
  }
  void TearDown() override { fs::remove_all(top_); }

  void change(const std::string& name, mode_t mode) const { ASSERT_EQ(::chmod((top_ / name).c_str(), mode), 0); }
  /// Only root can; `group` stays where it is nothing.
  void give(const std::string& name, uid_t user, gid_t group = static_cast<gid_t>(-1)) const {
    ASSERT_EQ(::lchown((top_ / name).c_str(), user, group), 0);
  }
  /// Why `name` is not trusted, which then is not read either; empty: it is, and was.
  [[nodiscard]] std::string refusal(const std::string& name = "etc/site.toml", TrustedOwners trusted = {}) const {
    trusted.users.push_back(::geteuid());
    std::string content;
    std::optional<TrustProblem> found;
    const FileReading reading = read_trusted_file(top_ / name, trusted, 100, content, found);
    EXPECT_EQ(reading.reason, "");
    EXPECT_EQ(content, found ? "" : "threads = 3\n");
    const std::optional<TrustProblem> unread = trust_problem_on_path(top_ / name, trusted);
    EXPECT_EQ(unread ? unread->reason : "", found ? found->reason : "");
    return found ? found->reason + "; " + found->remedy : "";
  }

  fs::path top_;
};

TEST_F(ReadTrustedFile, ReadsFilesThatOnlyTrustedUsersCanChange) {
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(refusal("link/site.toml"), "");
  EXPECT_EQ(refusal("link/../etc/./site.toml"), "");
}

TEST_F(ReadTrustedFile, RefusesFilesOthersCanWriteAndNamesTheRemedy) {
  const std::string file = top_ / "etc/site.toml", folder = top_ / "etc";
  change("etc/site.toml", 0666);
  EXPECT_EQ(refusal(), "others may write to " + file + "; chmod o-w " + file);
  EXPECT_EQ(refusal("etc/site.toml", {.anybody = true}), "");
  change("etc/site.toml", 0644);
  change("etc", 0777);
  EXPECT_EQ(refusal("link/site.toml"), "others may write to " + folder + "; chmod o-w " + folder) << "also by a link";
  change("etc", 01777);
  EXPECT_EQ(refusal(), "others may write to " + folder + "; a folder outside " + folder);
  change("etc", 0755);
  change("", 0777);
  EXPECT_EQ(refusal(), "others may write to " + top_.string() + "; chmod o-w " + top_.string()) << "up to the root";
}

TEST_F(ReadTrustedFile, AllowsGroupWriteOnlyForRootsAndTheOwnersPrivateGroup) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give files to others";
  }
  const std::string file = top_ / "etc/site.toml";
  change("etc/site.toml", 0664);
  EXPECT_EQ(refusal(), "") << "root's group";
  give("etc/site.toml", 0, kStranger);
  EXPECT_EQ(refusal(), "others may write to " + file + "; chmod g-w " + file);
  change("etc/site.toml", 0644);
  EXPECT_EQ(refusal(), "") << "a group that may only read";
  give("etc/site.toml", kStranger, kStranger);
  change("etc/site.toml", 0664);
  EXPECT_EQ(refusal("etc/site.toml", {.users = {kStranger}}), "") << "its owner's private group";
}

TEST_F(ReadTrustedFile, ChecksTheOwnersOfFilesFoldersAndLinks) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give files to others";
  }
  for (const char* const name : {"etc/site.toml", "etc", "link", ""}) {
    give(name, kStranger);
    const std::string path = (*name == '\0' ? top_ : top_ / name).string();
    EXPECT_EQ(refusal("link/site.toml"), "user 4711 owns " + path + "; chown root " + path);
    EXPECT_EQ(refusal("link/site.toml", {.users = {kStranger}}), "");
    give(name, 0);
  }
}

TEST_F(ReadTrustedFile, ChecksTheFoldersThatALinkLeadsThrough) {
  fs::create_directory(top_ / "open");
  fs::create_symlink("../etc/site.toml", top_ / "open/site.toml");
  fs::create_symlink(top_ / "open/site.toml", top_ / "way.toml");
  change("open", 0755);
  EXPECT_EQ(refusal("way.toml"), "");
  change("open", 0777);
  EXPECT_EQ(refusal("way.toml").substr(0, 20), "others may write to ");
}

TEST_F(ReadTrustedFile, ReportsWhyAFileCannotBeRead) {
  const auto reason = [&](const std::string& path) {
    std::string content;
    std::optional<TrustProblem> found;
    return read_trusted_file(path, {.users = {::geteuid()}}, 5, content, found).reason;
  };
  fs::create_symlink("loop", top_ / "loop");
  EXPECT_EQ(reason(top_ / "none.toml"), "No such file or directory");
  EXPECT_EQ(reason(top_ / "etc/site.toml/x"), "Not a directory");
  EXPECT_EQ(reason(top_ / "etc"), "Is a directory");
  EXPECT_EQ(reason(top_ / "loop"), "Too many levels of symbolic links");
  EXPECT_EQ(reason(top_ / "etc/site.toml"), "is longer than 5 bytes");
  EXPECT_EQ(reason("site.toml"), "is not an absolute path");
  ASSERT_EQ(::mkfifo((top_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(reason(top_ / "fifo"), "is not a regular file");
}

}  // namespace
}  // namespace rollcall
