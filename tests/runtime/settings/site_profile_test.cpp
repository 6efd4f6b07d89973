#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"
#include "runtime/settings/site_profile.h"

namespace rollcall::settings {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SiteProfiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/sitesXXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
    return folder_ / name;
  }
  /// "NAME: HOW" of the profile that fits, "none", or the error.
  std::string recognised(const SiteClues& clues) const {
    const auto site = recognise_site(folder_.string(), clues);
    if (!site) {
      return site.error().message();
    }
    return *site ? (*site)->name + ": " + (*site)->recognised_by : "none";
  }

  std::filesystem::path folder_;
};

TEST_F(SiteProfiles, StrongestClueHasPrecedence) {
  write("a.toml", "[site]\nname = 'a'\nhosts = ['login*.a', 'n?.*']\ncluster = 'ca'\n[host]\ntemplate = '{host}i'\n");
  write("b.toml", "[site]\nname = 'b'\nsystemname = ['bee']\ncluster = ['cb']\n");
  write("c.toml", "threads = 3\n");
  write("notes.txt", "no profile");
  EXPECT_EQ(recognised({"", "", "", "login7.a"}), "a: host name login7.a");
  EXPECT_EQ(recognised({"", "", "", "LOGIN7.A"}), "a: host name LOGIN7.A");
  EXPECT_EQ(recognised({"", "", "", "login7"}), "none");
  EXPECT_EQ(recognised({"", "", "cb", "login7.a"}), "b: Slurm's cluster name cb");
  EXPECT_EQ(recognised({"", "bee", "ca", "login7.a"}), "b: /etc/FZJ/systemname: bee");
  EXPECT_EQ(recognised({"Bee", "", "ca", "login7.a"}), "b: SYSTEMNAME=Bee");
  EXPECT_EQ(recognised({"../../etc/passwd", "", "", ""}), "none");
  EXPECT_EQ(recognised({}), "none");
}

TEST_F(SiteProfiles, RecognisesNoSiteWithoutAProfileFolder) {
  const auto site = recognise_site(std::nullopt, SiteClues{"a", "a", "a", "a"});
  ASSERT_TRUE(site);
  EXPECT_EQ(*site, std::nullopt);
}

TEST_F(SiteProfiles, MalformedProfileIsNamed) {
  write("broken.toml", "[site\nname = 'a'\n");
  EXPECT_THAT(recognised({}), HasSubstr("broken.toml:1"));
}

TEST_F(SiteProfiles, AMistakeInTheSectionNamesFileLineAndKey) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"[site]\nnmae = 'x'\n", ":2: site.nmae: unknown key; try name"},
      {"[site]\nhosts = 3\n", ":2: site.hosts: has a value of the wrong type"},
      {"[site]\nname = ['a', 'b']\n", ":2: site.name: has a value of the wrong type"},
      {"[site]\nlocked = ['port.rnage']\n", "site.locked: port.rnage: unknown setting; try port.range"},
      {"[site]\nname = 'a'\n[prot]\nrange = '1-2'\n", ":4: prot.range: unknown setting; try port.range"}};
  for (const auto& [content, message] : mistakes) {
    Settings settings(launch_table());
    const Result<void> applied =
        apply_site_profile(settings, {"", write("x.toml", content), "test"}, "", {.anybody = true});
    ASSERT_FALSE(applied) << content;
    EXPECT_THAT(applied.error().message(), HasSubstr(message));
    EXPECT_EQ(applied.error().kind, ErrorKind::Configuration);
  }
}

TEST_F(SiteProfiles, LockedSettingRefusesOtherSources) {
  const std::string file =
      write("x.toml", "[site]\nname = 'x'\nlocked = ['port.range', 'debug']\n[port]\nrange = '20000-20099'\n");
  Settings settings(launch_table());
  const Result<void> applied = apply_site_profile(settings, {"", file, "test"}, "", {.anybody = true});
  ASSERT_TRUE(applied) << applied.error().message();
  EXPECT_EQ(settings.text("port.range"), "20000-20099");
  EXPECT_TRUE(settings.is_locked("port.range"));
  EXPECT_FALSE(settings.is_locked("threads"));
  const Result<void> refused = apply_key_values(settings, "port.range=30000-30010", "--ddp");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("--ddp=port.range: 30000-30010: is locked by"), HasSubstr(file)));
  Environment user;
  user.set("ROLLCALL_DEBUG", "on");
  EXPECT_FALSE(apply_environment(settings, user));
  const Result<void> in_file = apply_toml_file(settings, write("user.toml", "debug = true\n"), true);
  ASSERT_FALSE(in_file);
  EXPECT_THAT(in_file.error().message(), AllOf(HasSubstr("user.toml:1: debug"), HasSubstr("is locked")));
  EXPECT_TRUE(apply_key_values(settings, "threads=3", "--ddp"));
  EXPECT_THAT(print_config(settings, false), HasSubstr(file + " (locked)"));
}

TEST_F(SiteProfiles, SiteSectionIsRefusedInAUserFile) {
  Settings settings(launch_table());
  const Result<void> applied = apply_toml_file(settings, write("user.toml", "[site]\nlocked = ['debug']\n"), true);
  ASSERT_FALSE(applied);
  EXPECT_THAT(applied.error().message(), HasSubstr("belongs in a site profile"));
}

TEST_F(SiteProfiles, OutputNamesTheActiveProfile) {
  Settings settings(launch_table());
  EXPECT_EQ(site_text(settings), "site profile: none\n");
  settings.set_skipped_sites("others may write to /opt/project");
  EXPECT_EQ(site_text(settings),
            "site profile: none\n"
            "installed site profiles are ignored: others may write to /opt/project; try chown or chmod go-w there, or "
            "creating /etc/rollcall/site.toml\n");
  settings.set_skipped_sites("");
  const std::string file = write("x.toml", "[site]\nname = 'x'\n");
  ASSERT_TRUE(apply_site_profile(settings, {"", file, "SYSTEMNAME=x"}, "", {.anybody = true}));
  EXPECT_EQ(site_text(settings), "site profile: x, recognised by SYSTEMNAME=x, " + file + "\n");
  EXPECT_THAT(print_config(settings, true), HasSubstr("\"recognised_by\": \"SYSTEMNAME=x\""));
}

}  // namespace
}  // namespace rollcall::settings
