#include "runtime/install/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/install/status.h"

namespace rollcall::install {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class InstalledFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/installedXXXXXX";
    folder_ = std::filesystem::canonical(mkdtemp(pattern.data()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string make(const std::string& name, mode_t mode) const {
    const std::string path = folder_ / name;
    std::ofstream(path) << "before";
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  static mode_t mode_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }

  std::filesystem::path folder_;
};

TEST_F(InstalledFiles, KeepTheirModeAndNewFilesAreWorldReadable) {
  const std::string secret = make("secret.conf", 0640);
  const std::string fresh = folder_ / "etc" / "new.conf";
  const std::string sites = folder_ / "made" / "for" / "site.toml";
  const mode_t before = umask(0077);
  const Result<void> applied =
      apply({{{secret, "after", std::nullopt, ""}, {fresh, "new", std::nullopt, ""}}, {}, {}}, ImageRoot());
  const Result<void> for_all = apply({{{sites, "new", std::nullopt, ""}}, {}, {}, true}, ImageRoot());
  umask(before);
  ASSERT_TRUE(applied) << applied.error().message();
  EXPECT_EQ(read_file(secret), "after");
  EXPECT_EQ(mode_of(secret), 0640U);
  EXPECT_EQ(mode_of(fresh), 0644U);
  EXPECT_EQ(mode_of(folder_ / "etc"), 0700U);
  ASSERT_TRUE(for_all) << for_all.error().message();
  EXPECT_EQ(mode_of(folder_ / "made"), 0755U);
  EXPECT_EQ(mode_of(folder_ / "made" / "for"), 0755U);
  EXPECT_THAT(names_in(folder_), ElementsAre("etc", "made", "secret.conf"));
}

TEST_F(InstalledFiles, WriteThroughALinkKeepsTheLink) {
  const std::string real = make("real.conf", 0644);
  const std::string link = folder_ / "link.conf";
  std::filesystem::create_symlink("real.conf", link);
  ASSERT_TRUE(apply({{{link, "after", std::nullopt, ""}}, {}, {}}, ImageRoot()));
  EXPECT_EQ(read_link(link), "real.conf");
  EXPECT_EQ(read_file(real), "after");
}

TEST_F(InstalledFiles, CreateAndRemoveTheTargetOfALink) {
  const std::string link = folder_ / "link.conf";
  std::filesystem::create_symlink("far/real.conf", link);
  ASSERT_TRUE(apply({{{link, "new", std::nullopt, ""}}, {}, {}}, ImageRoot()));
  EXPECT_EQ(read_file(folder_ / "far" / "real.conf"), "new");
  EXPECT_EQ(read_link(link), "far/real.conf");
  ASSERT_TRUE(apply({{{link, std::nullopt, std::nullopt, "", true}}, {}, {}}, ImageRoot()));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "far" / "real.conf"));
  EXPECT_EQ(read_link(link), "far/real.conf");
  ASSERT_TRUE(apply({{{link, std::nullopt, std::nullopt, ""}}, {}, {}}, ImageRoot()));
  EXPECT_EQ(read_link(link), std::nullopt);
}

TEST_F(InstalledFiles, LinksInAnImageResolveInsideTheImage) {
  const std::filesystem::path image = folder_ / "image";
  std::filesystem::create_directories(image / "etc");
  std::filesystem::create_directories(image / "opt" / "slurm");
  std::filesystem::create_symlink("/opt/slurm", image / "etc" / "slurm");                // absolute: the image's root
  std::filesystem::create_symlink("../../../../../../../opt", image / "etc" / "above");  // no way out
  std::filesystem::create_symlink("/etc/loop", image / "etc" / "loop");
  const ImageRoot root(image);
  EXPECT_EQ(root.on_this_machine("/etc/slurm/plugstack.conf"), image / "opt/slurm/plugstack.conf");
  EXPECT_EQ(root.on_this_machine("/etc/above/x"), image / "opt/x");
  EXPECT_EQ(root.on_this_machine("/../../etc/new/file"), image / "etc/new/file");
  EXPECT_EQ(root.entry_on_this_machine("/etc/slurm"), image / "etc/slurm");
  EXPECT_EQ(root.on_this_machine("/etc/loop/x"), "");
  const std::string outside = make("outside.conf", 0644);
  for (int link = 0; link < 60; ++link) {  // more than are followed, and then out
    const std::string next = link == 59 ? outside : "/etc/link" + std::to_string(link + 1);
    std::filesystem::create_symlink(next, image / "etc" / ("link" + std::to_string(link)));
  }
  const Result<void> refused = apply({{{"/etc/link0", "planted", std::nullopt, ""}}, {}, {}}, root);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().reason, HasSubstr("symbolic links"));
  const PlanReader read(root);
  EXPECT_EQ(read("/etc/absent"), std::nullopt);
  EXPECT_TRUE(read.checked());
  EXPECT_EQ(read("/etc/link0"), std::nullopt);
  EXPECT_FALSE(read.checked());
  EXPECT_EQ(read_file(outside), "before");
  ASSERT_TRUE(apply({{{"/etc/slurm/plugstack.conf", "line", std::nullopt, ""}}, {}, {}}, root));
  EXPECT_EQ(read_file(image / "opt" / "slurm" / "plugstack.conf"), "line");
  EXPECT_EQ(read("/etc/slurm/plugstack.conf"), "line");
}

TEST_F(InstalledFiles, ReportsFilesThatUsersOtherThanRootCanChange) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can make files of root's";
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  for (const mode_t mode : {0664U, 0646U}) {
    const std::string open = make("plugin.so", mode);
    ASSERT_EQ(chown(open.c_str(), 0, 4711), 0);  // in root's own group are administrators
    EXPECT_THAT(changeable_by_others(open, ImageRoot()), Contains(StartsWith(folder_.string() + "/plugin.so: ")));
  }
  const std::string plugin = make("plugin.so", 0755);
  EXPECT_THAT(changeable_by_others(plugin, ImageRoot()), Not(Contains(StartsWith(folder_.string()))));
  ASSERT_EQ(chown(plugin.c_str(), 4711, 0), 0);
  EXPECT_THAT(changeable_by_others(plugin, ImageRoot()), Contains(StartsWith(plugin + ": ")));
  ASSERT_EQ(chown(folder_.c_str(), 0, 4711), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0775), 0);
  EXPECT_THAT(changeable_by_others(plugin, ImageRoot()), Contains(StartsWith(folder_.string() + ": ")));
}

TEST_F(InstalledFiles, ReportsWritableFoldersBehindLinks) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can make files of root's";
  }
  namespace fs = std::filesystem;
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  fs::create_directories(folder_ / "shared" / "sw" / "lib");
  fs::create_directories(folder_ / "opt");
  fs::create_directories(folder_ / "open");
  fs::create_symlink("../shared/sw", folder_ / "opt" / "rollcall");
  fs::create_symlink(folder_ / "opt" / "rollcall", folder_ / "open" / "link");
  make("shared/sw/lib/plugin.so", 0755);
  const std::string plugin = folder_ / "opt" / "rollcall" / "lib" / "plugin.so";
  EXPECT_THAT(changeable_by_others(plugin, ImageRoot()), Not(Contains(StartsWith(folder_.string()))));
  ASSERT_EQ(chmod((folder_ / "shared").c_str(), 0777), 0);
  EXPECT_THAT(changeable_by_others(plugin, ImageRoot()), Contains(StartsWith((folder_ / "shared").string() + ": ")));
  ASSERT_EQ(chmod((folder_ / "shared").c_str(), 0755), 0);
  ASSERT_EQ(chmod((folder_ / "opt").c_str(), 0757), 0);
  const std::string through_two = folder_ / "open" / "link" / "lib" / "plugin.so";
  EXPECT_THAT(changeable_by_others(through_two, ImageRoot()), Contains(StartsWith((folder_ / "opt").string() + ": ")));
}

TEST_F(InstalledFiles, ReportsWritableFoldersInsideTheImageOnly) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can make files of root's";
  }
  namespace fs = std::filesystem;
  const fs::path image = folder_ / "image";
  fs::create_directories(image / "opt" / "sw");
  fs::create_directories(image / "shared");
  fs::create_symlink("/shared", image / "opt" / "lib");
  make("image/shared/plugin.so", 0755);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const ImageRoot root(image);
  EXPECT_THAT(changeable_by_others("/opt/lib/plugin.so", root), IsEmpty());
  ASSERT_EQ(chmod((image / "shared").c_str(), 0777), 0);
  EXPECT_THAT(changeable_by_others("/opt/lib/plugin.so", root), ElementsAre(StartsWith(image.string() + "/shared: ")));
}

}  // namespace
}  // namespace rollcall::install
