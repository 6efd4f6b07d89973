#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/settings/launch_settings.h"
#include "runtime/storage/folders.h"

namespace rollcall::storage {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// A world-writable sticky folder, like /tmp, inside a private folder.
class OwnFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/foldersXXXXXX";
    top_ = std::filesystem::canonical(mkdtemp(pattern.data()));
    make("open", 01777);
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  std::string make(const std::string& name, mode_t mode) const {
    const std::string path = top_ / name;
    EXPECT_EQ(mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  static mode_t mode_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }

  /// A folder that is writable for a group other than the user's private one; empty if the user is in no such group.
  std::string make_group_writable(const std::string& name) {
    std::vector<gid_t> groups(static_cast<std::size_t>(getgroups(0, nullptr)));
    getgroups(static_cast<int>(groups.size()), groups.data());
    groups.push_back(geteuid() == 0 ? 4711 : getegid());
    const std::string path = make(name, 0700);
    for (const gid_t group : groups) {
      if (group != geteuid() && chown(path.c_str(), static_cast<uid_t>(-1), group) == 0) {
        group_ = group;
        EXPECT_EQ(chmod(path.c_str(), 0770), 0);
        return path;
      }
    }
    return "";
  }

  gid_t group_ = 0;

  std::filesystem::path top_;
};

TEST_F(OwnFolder, IsCreatedWithTheUmaskInAPrivateFolder) {
  const mode_t before = umask(0027);
  EXPECT_THAT(make_own_folder(top_ / "a/b/c").reason, IsEmpty());
  umask(before);
  EXPECT_EQ(mode_of(top_ / "a/b/c"), 0750u);
  EXPECT_THAT(make_own_folder(top_ / "a/b/c").reason, IsEmpty()) << "it is there already";
}

TEST_F(OwnFolder, HasMode0700InAWorldWritableFolder) {
  const mode_t before = umask(0);
  EXPECT_THAT(make_own_folder(top_ / "open/me/triton").reason, IsEmpty());
  umask(before);
  EXPECT_EQ(mode_of(top_ / "open/me"), 0700u);
  EXPECT_THAT(make_own_folder(top_ / "open/me/triton").reason, IsEmpty());
}

TEST_F(OwnFolder, RefusesALinkInAWorldWritableFolder) {
  make("target", 0700);
  std::filesystem::create_symlink(top_ / "target", top_ / "open/me");
  const FolderObjection objection = make_own_folder(top_ / "open/me/triton");
  EXPECT_THAT(objection.reason, HasSubstr("open/me is a link"));
  EXPECT_TRUE(objection.only_here);
  EXPECT_FALSE(std::filesystem::exists(top_ / "target/triton"));
}

TEST_F(OwnFolder, RefusesAFolderThatOthersCanWrite) {
  make("open/me", 0777);
  make("open/ours", 0770);
  for (const char* name : {"open/me/triton", "open/ours/triton"}) {
    EXPECT_THAT(make_own_folder(top_ / name).reason, HasSubstr("others may write to")) << name;
  }
}

TEST_F(OwnFolder, RefusesAWorldWritableParentWithoutStickyBit) {
  const std::string open = make("unsticky", 0777);
  make("unsticky/mine", 0700);
  for (const char* name : {"mine/torch", "new/torch"}) {
    const FolderObjection objection = make_own_folder(open + "/" + name);
    EXPECT_THAT(objection.reason, HasSubstr(open + " is not sticky")) << name;
    EXPECT_FALSE(objection.only_here) << "a shared file system's, most likely: one task tells";
  }
  EXPECT_FALSE(std::filesystem::exists(open + "/new"));
  EXPECT_FALSE(std::filesystem::exists(open + "/mine/torch"));
  ASSERT_EQ(chmod(open.c_str(), 01777), 0);
  EXPECT_THAT(make_own_folder(open + "/mine/torch").reason, IsEmpty());
}

TEST_F(OwnFolder, RefusesALinkInAWorldWritableFolderWithoutStickyBit) {
  const std::string open = make("unsticky", 0777);
  make("target", 0700);
  std::filesystem::create_symlink(top_ / "target", open + "/link");
  EXPECT_THAT(make_own_folder(open + "/link/torch").reason, HasSubstr(open + " is not sticky"));
}

TEST_F(OwnFolder, WarnsOfAGroupWritableParentWithoutStickyBit) {
  const std::string project = make_group_writable("project");
  if (project.empty()) {
    GTEST_SKIP() << "this user is in no project's group";
  }
  for (int there = 0; there < 2; ++there) {
    const FolderObjection objection = make_own_folder(project + "/me/torch");
    EXPECT_THAT(objection.reason, IsEmpty());
    EXPECT_THAT(objection.caution, HasSubstr(fmt::format("group {}", group_)));
    EXPECT_THAT(objection.caution, HasSubstr(project + "/me"));
    EXPECT_THAT(objection.caution, HasSubstr("chmod +t " + project));
  }
  ASSERT_EQ(chmod(project.c_str(), 01770), 0);
  EXPECT_THAT(make_own_folder(project + "/me/torch").caution, IsEmpty());
}

TEST_F(OwnFolder, RefusesAnExistingWorldWritableFolder) {
  for (const mode_t mode : {0777U, 0757U, 01777U}) {
    const std::string cache = make(fmt::format("cache-{:o}", mode), mode);
    const FolderObjection objection = make_own_folder(cache);
    EXPECT_THAT(objection.reason, HasSubstr("others may write to " + cache)) << cache;
    EXPECT_FALSE(objection.only_here) << "a home folder is most likely seen by all nodes";
    EXPECT_THAT(make_own_folder(cache + "/below").reason.empty(), (mode & S_ISVTX) != 0)
        << "made closed in a sticky one";
  }
  std::filesystem::create_directory_symlink(top_ / "cache-777", top_ / "link");
  EXPECT_THAT(make_own_folder(top_ / "link").reason, HasSubstr("others may write to"));
}

TEST_F(OwnFolder, WarnsOfAnExistingGroupWritableFolder) {
  const std::string cache = make_group_writable("cache");
  if (cache.empty()) {
    GTEST_SKIP() << "this user is in no project's group";
  }
  const FolderObjection objection = make_own_folder(cache);
  EXPECT_THAT(objection.reason, IsEmpty());
  EXPECT_THAT(objection.caution, HasSubstr(fmt::format("members of group {} may write to {}", group_, cache)));
  ASSERT_EQ(chmod(cache.c_str(), 0750), 0);
  EXPECT_THAT(make_own_folder(cache).caution, IsEmpty());
}

TEST_F(OwnFolder, AcceptsWriteAccessOfTheUsersPrivateGroup) {
  const std::string home = make("home", 0770);
  if (chown(home.c_str(), static_cast<uid_t>(-1), geteuid()) != 0) {
    GTEST_SKIP() << "this user has no group of its own";
  }
  EXPECT_THAT(make_own_folder(home + "/.cache/torch").caution, IsEmpty());
  EXPECT_THAT(make_own_folder(home).caution, IsEmpty());
}

TEST_F(OwnFolder, IsNeverCreatedGroupOrWorldWritable) {
  const mode_t before = umask(0);
  EXPECT_THAT(make_own_folder(top_ / "a/b").reason, IsEmpty());
  umask(before);
  EXPECT_EQ(mode_of(top_ / "a"), 0755u);
  EXPECT_EQ(mode_of(top_ / "a/b"), 0755u);
}

TEST_F(OwnFolder, RefusesAFolderOfAnotherUser) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can make a folder of another user";
  }
  const std::string path = make("open/me", 0755);
  ASSERT_EQ(chown(path.c_str(), 4711, 4711), 0);
  const FolderObjection objection = make_own_folder(path + "/triton");
  EXPECT_THAT(objection.reason, HasSubstr("belongs to user 4711"));
  EXPECT_TRUE(objection.only_here);
}

TEST_F(OwnFolder, RefusesAnotherUsersFolderInAGroupWritableFolder) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can make a folder of another user";
  }
  std::filesystem::create_directories(top_ / "project" / "victim" / ".cache");
  ASSERT_EQ(chmod((top_ / "project").c_str(), 0770), 0);
  const FolderObjection mine = make_own_folder(top_ / "project" / "victim" / ".cache" / "torch");
  EXPECT_EQ(mine.reason, "") << "a group's folder is no objection in itself";
  ASSERT_EQ(chown((top_ / "project" / "victim").c_str(), 4711, 0), 0);
  const FolderObjection planted = make_own_folder(top_ / "project" / "victim" / ".cache" / "torch");
  EXPECT_THAT(planted.reason, HasSubstr("project/victim belongs to user 4711"));
  EXPECT_FALSE(planted.only_here) << "all nodes see a project's folder: one of them tells";
}

TEST_F(OwnFolder, HasMode0700InAGroupWritableFolder) {
  make("project", 02770);
  const mode_t before = umask(0002);
  EXPECT_THAT(make_own_folder(top_ / "project/me/torch").reason, IsEmpty());
  umask(before);
  EXPECT_EQ(mode_of(top_ / "project/me") & 0777, 0700u);
}

TEST_F(OwnFolder, RefusesAnotherUsersLinkInAGroupWritableFolder) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can make a link of another user";
  }
  std::filesystem::create_directories(top_ / "project");
  std::filesystem::create_directories(top_ / "elsewhere");
  ASSERT_EQ(chmod((top_ / "project").c_str(), 0770), 0);
  const std::filesystem::path link = top_ / "project" / "cache";
  std::filesystem::create_symlink(top_ / "elsewhere", link);
  EXPECT_EQ(make_own_folder(link).reason, "") << "the user's own link";
  ASSERT_EQ(lchown(link.c_str(), 4711, 0), 0);
  EXPECT_THAT(make_own_folder(link).reason, HasSubstr("project/cache belongs to user 4711"));
}

TEST_F(OwnFolder, FollowsTheUsersLinksAndChecksTheirTargets) {
  make("real", 0700);
  std::filesystem::create_symlink("real", top_ / "link");
  EXPECT_THAT(make_own_folder(top_ / "link/cache").reason, IsEmpty());
  EXPECT_TRUE(std::filesystem::is_directory(top_ / "real/cache"));
  make("open/theirs", 0777);
  std::filesystem::create_symlink(top_ / "open/theirs", top_ / "trap");
  EXPECT_THAT(make_own_folder(top_ / "trap/cache").reason, HasSubstr("others may write to"));
  std::filesystem::create_symlink("loop", top_ / "loop");
  EXPECT_THAT(make_own_folder(top_ / "loop/cache").reason, HasSubstr("cannot be followed"));
}

TEST_F(OwnFolder, RefusesAFileInThePathAndARelativePath) {
  EXPECT_THAT(make_own_folder("/dev/null/cache").reason, HasSubstr("/dev/null"));
  EXPECT_FALSE(make_own_folder("/dev/null/cache").only_here);
  EXPECT_THAT(make_own_folder("cache").reason, HasSubstr("is not an absolute path"));
}

/// Rank 1, because rank 0 also looks for old files.
job::JobFacts rank_1() {
  job::JobFacts facts;
  facts.rank = 1;
  facts.world_size = 2;
  return facts;
}

TEST_F(OwnFolder, RefusalInANodesLocalFolderIsAWarningOfThatNode) {
  const std::filesystem::path exposed = top_ / "exposed";
  std::filesystem::create_directory(exposed);
  std::filesystem::permissions(exposed, std::filesystem::perms::all | std::filesystem::perms::sticky_bit);
  std::filesystem::create_directory_symlink("/", exposed / "me");
  resolve::EnvPatch patch;
  patch.changes = {{"TRITON_CACHE_DIR", exposed / "me", resolve::Action::Set, "o", "r"}};
  ASSERT_TRUE(prepare_folders(rank_1(), patch, settings::Settings(settings::launch_table()), Environment()));
  EXPECT_THAT(patch.warnings, IsEmpty());
  ASSERT_EQ(patch.node_warnings.size(), 1u);
  EXPECT_THAT(patch.node_warnings.front(), HasSubstr("TRITON_CACHE_DIR"));
}

TEST_F(OwnFolder, UnsetsCacheVariablesWhoseFolderCannotBeCreated) {
  resolve::EnvPatch patch;
  const std::string good = top_ / "good";
  patch.changes = {{"TORCH_HOME", "/dev/null/torch", resolve::Action::Set, "o", "r"},
                   {"HF_HOME", good, resolve::Action::Set, "o", "r"},
                   {"PIP_CACHE_DIR", "/dev/null/users", resolve::Action::Keep, "user", "r"},
                   {"MASTER_ADDR", "/dev/null/no-cache", resolve::Action::Set, "o", "r"}};
  ASSERT_TRUE(prepare_folders(rank_1(), patch, settings::Settings(settings::launch_table()), Environment()));
  ASSERT_EQ(patch.warnings.size(), 1u);
  EXPECT_THAT(patch.warnings.front(), HasSubstr("TORCH_HOME: /dev/null/torch"));
  EXPECT_EQ(patch.find("TORCH_HOME")->action, resolve::Action::Unset);
  EXPECT_EQ(patch.find("HF_HOME")->action, resolve::Action::Set);
  EXPECT_TRUE(std::filesystem::is_directory(good));
}

TEST_F(OwnFolder, WarnsOncePerFolderForGroupWritableCaches) {
  const std::string project = make_group_writable("project");
  if (project.empty()) {
    GTEST_SKIP() << "this user is in no project's group";
  }
  resolve::EnvPatch patch;
  patch.changes = {{"TORCH_HOME", project + "/me/torch", resolve::Action::Set, "o", "r"},
                   {"HF_HOME", project + "/me/huggingface", resolve::Action::Set, "o", "r"}};
  ASSERT_TRUE(prepare_folders(rank_1(), patch, settings::Settings(settings::launch_table()), Environment()));
  EXPECT_EQ(patch.find("TORCH_HOME")->action, resolve::Action::Set);
  ASSERT_EQ(patch.warnings.size(), 1u);
  EXPECT_THAT(patch.warnings.front(), HasSubstr("TORCH_HOME: " + project + "/me/torch: members of group"));
}

TEST_F(OwnFolder, WarnsOnceWhenSeveralCachesFailForTheSameFolder) {
  const std::string open = make("unsticky", 0777);
  resolve::EnvPatch patch;
  for (const char* const name : {"TORCH_HOME", "HF_HOME", "TRITON_CACHE_DIR"}) {
    patch.changes.push_back({.name = name, .value = open + "/me/" + name});
  }
  patch.changes.push_back({.name = "PIP_CACHE_DIR", .value = top_ / "open/pip"});
  ASSERT_TRUE(prepare_folders({.rank = 1}, patch, settings::Settings(settings::launch_table()), Environment()));
  const std::string reason = "anybody could replace it, because " + open + " is not sticky";
  EXPECT_THAT(patch.warnings, testing::ElementsAre(testing::AllOf(
                                  testing::StartsWith("TORCH_HOME: " + open + "/me/TORCH_HOME: " + reason),
                                  testing::EndsWith("; the variable is not set, and neither are HF_HOME, "
                                                    "TRITON_CACHE_DIR"))));
  EXPECT_THAT(patch.node_warnings, IsEmpty());
  EXPECT_EQ(patch.changes[2].action, resolve::Action::Unset);
  EXPECT_EQ(patch.changes[3].action, resolve::Action::Set);
}

}  // namespace
}  // namespace rollcall::storage
