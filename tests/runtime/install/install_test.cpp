#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "runtime/cli/program.h"
#include "runtime/install/plan.h"
#include "runtime/install/plugin_file.h"
#include "runtime/install/sealed_text.h"
#include "runtime/job/slurm_files.h"

namespace rollcall::install {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A file system in memory.
struct Files {
  std::map<std::string, std::string> texts;
  std::map<std::string, std::string> links;

  [[nodiscard]] ReadFile read() const {
    return [this](const std::string& path) { return find(texts, path); };
  }
  [[nodiscard]] ReadLink link() const {
    return [this](const std::string& path) { return find(links, path); };
  }
  [[nodiscard]] ListNames names() const {
    return [this](const std::string& folder) {
      std::set<std::string> found;
      const std::string above = folder.ends_with('/') ? folder : folder + "/";
      for (const auto& [path, text] : texts) {
        if (path.starts_with(above)) {
          found.insert(path.substr(above.size(), path.find('/', above.size()) - above.size()));
        }
      }
      return std::vector(found.begin(), found.end());
    };
  }
  void apply(const Plan& plan) {
    for (const FileChange& change : plan.changes) {
      texts.erase(change.path);
      links.erase(change.path);
      if (change.text) {
        texts[change.path] = *change.text;
      } else if (change.link_to) {
        links[change.path] = *change.link_to;
      }
    }
  }

 private:
  static std::optional<std::string> find(const std::map<std::string, std::string>& map, const std::string& path) {
    const auto found = map.find(path);
    return found == map.end() ? std::nullopt : std::optional(found->second);
  }
};

TEST(SealedText, DistinguishesIntactEditedAndForeign) {
  const std::string sealed = seal("a\nb\n");
  EXPECT_EQ(seal_of(sealed), Seal::Intact);
  EXPECT_EQ(seal_of(sealed + "c\n"), Seal::Edited);
  EXPECT_EQ(seal_of(sealed.substr(0, sealed.size() - 1)), Seal::Edited);
  EXPECT_EQ(seal_of("a\nb\n"), Seal::Foreign);
  EXPECT_EQ(seal_of(""), Seal::Foreign);
  EXPECT_EQ(seal_of(sealed.substr(0, sealed.find("Seal") + 7)), Seal::Edited);
}

TEST(SealedText, AddingAndRemovingABlockKeepsTheRest) {
  for (const std::string before : {"", "x\n", "x\ny"}) {
    const std::string with = with_block(before, "mine\n");
    EXPECT_EQ(block_of(with), Seal::Intact);
    EXPECT_EQ(without_block(with + "later\n"), before + "later\n");
  }
  EXPECT_EQ(block_of("x\n"), std::nullopt);
  std::string edited = with_block("x\n", "optional p\n");
  edited.replace(edited.find("optional"), 8, "required");
  EXPECT_EQ(block_of(edited), Seal::Edited);
  EXPECT_EQ(without_block(edited), edited);
  EXPECT_EQ(block_of(with_block("", "a\n").substr(0, 90)), Seal::Edited);
}

TEST(SlurmFiles, LastValueHasPrecedenceAndIncludesAreFollowed) {
  const Files files{{{"/s/slurm.conf", "# plugstackconfig=/no\nInclude more.conf\nClusterName=x # y\n"},
                     {"/s/more.conf", "PLUGSTACKCONFIG=/p/stack.conf MpiDefault=none\ninclude slurm.conf\n"}},
                    {}};
  EXPECT_EQ(plugstack_of("/s/slurm.conf", files.read()), "/p/stack.conf");
  EXPECT_EQ(slurm_conf_value("/s/slurm.conf", "clustername", files.read()), "x");
  EXPECT_EQ(first_include("/s/slurm.conf", files.read()), "/s/more.conf");
  EXPECT_EQ(plugstack_of("/t/slurm.conf", files.read()), "/t/plugstack.conf");
  const Files twice{{{"/s/slurm.conf", "PlugStackConfig=/p/first\ninclude more.conf\n"},
                     {"/s/more.conf", "PlugStackConfig=/p/second\n"}},
                    {}};
  EXPECT_EQ(plugstack_of("/s/slurm.conf", twice.read()), "/p/second");
}

TEST(SlurmFiles, ValuesAreReadAsSlurmReadsThem) {
  for (const char* const text :
       {"PlugStackConfig=/p/stack.conf\n", "PlugStackConfig = /p/stack.conf\n", "PlugStackConfig=\"/p/stack.conf\"\n",
        "\tplugstackconfig\t=\t\"/p/stack.conf\" # the site's\n", "ClusterName=x PlugStackConfig=/p/stack.conf\n",
        "ClusterName=\"a b\" PlugStackConfig = /p/stack.conf MpiDefault=none", "PlugStackConfig= \\\n /p/stack.conf\n",
        "PlugStackConfig=/p/\\stack.conf\r\n", "ClusterName=x\\#y PlugStackConfig=/p/stack.conf\n"}) {
    const Files files{{{"/s/slurm.conf", text}}, {}};
    EXPECT_EQ(plugstack_of("/s/slurm.conf", files.read()), "/p/stack.conf") << text;
  }
  for (const char* const text :
       {"# PlugStackConfig=/p/stack.conf\n", "ClusterName=x # \\\nPlugStackConfig=\n",
        "ClusterName=\"PlugStackConfig=/p/stack.conf\"\n", "XPlugStackConfig=/p/stack.conf\n"}) {
    const Files files{{{"/s/slurm.conf", text}}, {}};
    EXPECT_EQ(plugstack_of("/s/slurm.conf", files.read()), "/s/plugstack.conf") << text;
  }
  const Files spaces{{{"/s/slurm.conf", "PlugStackConfig=\"/my p/stack.conf\"\n"}}, {}};
  EXPECT_EQ(plugstack_of("/s/slurm.conf", spaces.read()), "/my p/stack.conf");
}

TEST(SlurmFiles, PluginLinesAreFoundThroughIncludes) {
  const Files files{
      {{"/s/p.conf", "include q.conf\noptional /x/other.so a\n#optional /x/spank_rollcall.so\nrequired\n"},
       {"/s/q.conf", "required /x/spank_rollcall.so config=/e/s.toml task_prolog=/h/t\ninclude p.conf\n"}},
      {}};
  const std::vector<PluginLine> lines = plugin_lines("/s/p.conf", files.read(), files.names());
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].file, "/s/q.conf");
  EXPECT_TRUE(lines[0].required);
  EXPECT_EQ(lines[0].config, "/e/s.toml");
  EXPECT_EQ(lines[0].task_prolog, "/h/t");
}

TEST(SlurmFiles, ExpandsWildcardsInIncludes) {
  const Files files{{{"/s/p.conf", "include *.d/[ab]?.conf\ninclude /t/none*\n"},
                     {"/s/one.d/b1.conf", "optional /2/spank_rollcall.so\n"},
                     {"/s/one.d/a1.conf", "optional /1/spank_rollcall.so\n"},
                     {"/s/one.d/c1.conf", "optional /no/spank_rollcall.so\n"},
                     {"/s/.d/a1.conf", "optional /no/spank_rollcall.so\n"},
                     {"/s/two.d/a1.conf", "optional /3/spank_rollcall.so\n"}},
                    {}};
  std::vector<std::string> plugins;
  for (const PluginLine& line : plugin_lines("/s/p.conf", files.read(), files.names())) {
    plugins.push_back(line.plugin);
  }
  EXPECT_THAT(plugins, ElementsAre("/1/spank_rollcall.so", "/2/spank_rollcall.so", "/3/spank_rollcall.so"));
}

TEST(PluginFile, ReadsVersionsAndRefusesOtherFiles) {
  EXPECT_EQ(parse_slurm_version("slurm-wlm 22.05.8\n")->text(), "22.05.8");
  EXPECT_EQ(parse_slurm_version("slurm 24.11.5-1")->text(), "24.11.5");
  EXPECT_FALSE(parse_slurm_version("command not found"));
  EXPECT_TRUE((SlurmVersion{24, 11, 5}.fits({24, 11, 0})));
  EXPECT_FALSE((SlurmVersion{24, 11, 5}.fits({24, 5, 5})));
  EXPECT_FALSE((SlurmVersion{24, 11, 5}.fits({25, 11, 5})));
  EXPECT_FALSE(plugin_version(""));
  EXPECT_FALSE(plugin_version(std::string("\x7f") + "ELF" + std::string(60, '\xff')));
  std::ifstream self("/proc/self/exe", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(self), {});
  EXPECT_FALSE(plugin_version(bytes));
  for (std::size_t size = 0; size < 4096; size += 7) {
    EXPECT_FALSE(plugin_version(std::string_view(bytes).substr(0, size)));
  }
}

TEST(PluginFile, AnInstallationHasOneForEachSlurm) {
  const Files files{{{"/o/lib/rollcall/slurm-26.05/spank_rollcall.so", ""},
                     {"/o/lib/rollcall/slurm-22.05/spank_rollcall.so", ""},
                     {"/o/lib/rollcall/slurm-24.11/half", ""},
                     {"/o/lib/rollcall/22.05-1c291ca3/spank_rollcall.so", ""},
                     {"/o/lib/rollcall/rollcall_cuda.so", ""},
                     {"/build/spank_plugin/trixie/spank_rollcall.so", ""},
                     {"/build/spank_plugin/spank_rollcall.so", ""}},
                    {}};
  EXPECT_THAT(
      plugins_beside("/o/bin/rollcall", files.names()),
      ElementsAre("/o/lib/rollcall/slurm-22.05/spank_rollcall.so", "/o/lib/rollcall/slurm-26.05/spank_rollcall.so"));
  EXPECT_THAT(plugins_beside("/build/runtime/rollcall", files.names()),
              ElementsAre("/build/spank_plugin/spank_rollcall.so"));
  EXPECT_THAT(plugins_beside("/usr/bin/rollcall", files.names()), testing::IsEmpty());
}

TEST(PluginFile, OneForASlurmIsTakenWhereALinkOrAnOlderBuildHasAnother) {
  const Files files{
      {{"/o/lib64/rollcall/slurm-22.05/spank_rollcall.so", ""}, {"/o/lib/rollcall/slurm-22.05/spank_rollcall.so", ""}},
      {}};
  EXPECT_THAT(plugins_beside("/o/bin/rollcall", files.names()), testing::SizeIs(1));
}

TEST(PluginFile, TheOneForThisSlurmIsChosen) {
  const std::vector<PluginFile> plugins{{"/o/lib/rollcall/slurm-22.05/spank_rollcall.so", "", {22, 5, 8}},
                                        {"/o/lib/rollcall/slurm-23.11/spank_rollcall.so", "", {23, 11, 4}}};
  EXPECT_EQ(fitting_plugin(plugins, SlurmVersion{23, 11, 10})->path, "/o/lib/rollcall/slurm-23.11/spank_rollcall.so");
  EXPECT_EQ(fitting_plugin(plugins, SlurmVersion{22, 5, 2})->path, "/o/lib/rollcall/slurm-22.05/spank_rollcall.so");
  EXPECT_EQ(fitting_plugin({plugins[1]}, std::nullopt)->built_for.text(), "23.11.4");
  EXPECT_THAT(
      fitting_plugin(plugins, SlurmVersion{25, 5, 3}).error().message(),
      HasSubstr("--plugin: /o/lib/rollcall: has plugins for Slurm 22.05.8, 23.11.4, but this is Slurm 25.05.3; try "
                "--plugin=FILE, a spank_rollcall.so built against this Slurm's headers"));
  EXPECT_THAT(
      fitting_plugin(plugins, std::nullopt).error().message(),
      HasSubstr(
          "22.05.8, 23.11.4, and the version of this Slurm is unknown; try --plugin=FILE, the one for this Slurm"));
  EXPECT_THAT(fitting_plugin({plugins[0]}, SlurmVersion{23, 11, 4}).error().message(),
              HasSubstr("slurm-22.05/spank_rollcall.so: was built for Slurm 22.05.8, but this is Slurm 23.11.4"));
}

TEST(PluginFile, BuildsInUseLieBesideTheFoldersOfAnInstallation) {
  const std::string placed = placed_plugin("/o/lib/rollcall/slurm-22.05/spank_rollcall.so", {22, 5, 8}, "bytes");
  EXPECT_THAT(placed, testing::MatchesRegex("/o/lib/rollcall/22.05-[0-9a-f]{8}/spank_rollcall.so"));
  EXPECT_EQ(placed_plugin(placed, {22, 5, 8}, "bytes"), placed);
  EXPECT_EQ(placed_plugin("/o/lib/rollcall/spank_rollcall.so", {22, 5, 8}, "bytes"), placed);
}

UserInput user_input() { return {"/h/r/slurm", "/s/slurm.conf", "/o/spank_rollcall.so", "/o/rollcall", {"mpi.conf"}}; }

TEST(UserPlan, InstallTwiceThenUninstallLeavesNothing) {
  Files files{{{"/s/slurm.conf", "ClusterName=x\n"}, {"/s/plugstack.conf", "optional /x/other.so\n"}}, {}};
  const Files before = files;
  const Result<Plan> first = plan_user_install(user_input(), files.read(), files.link(), files.names());
  ASSERT_TRUE(first);
  files.apply(*first);
  EXPECT_THAT(files.texts["/h/r/slurm/slurm.conf"],
              HasSubstr("include /s/slurm.conf\nPlugStackConfig=/h/r/slurm/plugstack.conf\n"));
  EXPECT_THAT(files.texts["/h/r/slurm/plugstack.conf"],
              HasSubstr("include /s/plugstack.conf\noptional /o/spank_rollcall.so task_prolog="));
  EXPECT_EQ(files.links["/h/r/slurm/mpi.conf"], "/s/mpi.conf");
  EXPECT_TRUE(plan_user_install(user_input(), files.read(), files.link(), files.names())->changes.empty());
  const Result<Plan> undo = plan_user_uninstall(
      "/h/r/slurm", {"mpi.conf", "plugstack.conf", "rollcall-task-prolog", "slurm.conf"}, files.read(), files.link());
  ASSERT_TRUE(undo);
  files.apply(*undo);
  EXPECT_EQ(files.texts, before.texts);
  EXPECT_TRUE(files.links.empty());
}

TEST(UserPlan, UninstallKeepsLinksOfTheUser) {
  Files files{{{"/s/slurm.conf", ""}}, {}};
  files.apply(*plan_user_install(user_input(), files.read(), files.link(), files.names()));
  files.links["/h/r/slurm/mine"] = "/elsewhere";
  const Result<Plan> undo = plan_user_uninstall("/h/r/slurm", {"mine"}, files.read(), files.link());
  ASSERT_TRUE(undo);
  EXPECT_TRUE(undo->changes.empty());
}

TEST(UserPlan, PathsThatSlurmCannotHoldAreRefused) {
  const Files files{{{"/s/slurm.conf", ""}}, {}};
  for (const char* folder : {"/h/my files/slurm", "/h/files#1/slurm", "/h/\"files\"/slurm", "/h/a\tb", "/h/a\nb"}) {
    UserInput input = user_input();
    input.folder = folder;
    const Result<Plan> plan = plan_user_install(input, files.read(), files.link(), files.names());
    ASSERT_FALSE(plan) << folder;
    EXPECT_EQ(plan.error().value, folder);
  }
}

TEST(UserPlan, IsRefusedWhenTheSiteAlreadyLoadsThePlugin) {
  for (const char* word : {"optional", "required"}) {
    const Files files{{{"/s/slurm.conf", ""}, {"/s/plugstack.conf", std::string(word) + " /x/spank_rollcall.so\n"}},
                      {}};
    const Result<Plan> plan = plan_user_install(user_input(), files.read(), files.link(), files.names());
    ASSERT_FALSE(plan) << word;
    EXPECT_EQ(plan.error().value, "/s/plugstack.conf");
    EXPECT_EQ(plan.error().kind, ErrorKind::Configuration);
  }
}

TEST(SitePlan, DoesNotReplaceAForeignProfile) {
  const Files files{{{"/etc/rollcall/site.toml", "threads = \"3\"\n"}}, {}};
  SiteInput input{"/etc/slurm.conf",         "/etc/plugstack.conf", "/o/spank_rollcall.so",
                  "/etc/rollcall/site.toml", "debug = true\n",      ImageRoot("/i")};
  const Result<Plan> refused = plan_site_install(input, files.read(), files.names());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::CannotCreate);
  EXPECT_EQ(refused.error().value, "/i/etc/rollcall/site.toml");
  input.profile = std::nullopt;
  const Result<Plan> plan = plan_site_install(input, files.read(), files.names());
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->changes.size(), 1U);
  EXPECT_EQ(plan->changes[0].path, "/etc/plugstack.conf");
  EXPECT_THAT(*plan->changes[0].text, HasSubstr("optional /o/spank_rollcall.so config=/etc/rollcall/site.toml\n"));
}

TEST(SitePlan, APathThatPlugstackCannotHoldIsRefused) {
  const Files files;
  const SiteInput input{"/etc/slurm.conf",         "/etc/plugstack.conf", "/opt/my plugins/spank_rollcall.so",
                        "/etc/rollcall/site.toml", std::nullopt,          ImageRoot()};
  const Result<Plan> plan = plan_site_install(input, files.read(), files.names());
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message(), HasSubstr("--plugin: /opt/my plugins/spank_rollcall.so: has a character"));
}

TEST(SitePlan, RefusesARelativePlugStackConfig) {
  const Files files;
  const SiteInput input{"/etc/slurm.conf",         "stack.conf", "/o/spank_rollcall.so",
                        "/etc/rollcall/site.toml", std::nullopt, ImageRoot("/i")};
  for (const Result<Plan>& plan :
       {plan_site_install(input, files.read(), files.names()), plan_site_uninstall(input, files.read())}) {
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(plan.error().message(),
                HasSubstr("PlugStackConfig: stack.conf: is not an absolute path in /i/etc/slurm.conf"));
  }
}

TEST(SitePlan, UninstallRestoresThePreviousFiles) {
  const SiteInput input{"/etc/slurm.conf",         "/etc/plugstack.conf", "/o/spank_rollcall.so",
                        "/etc/rollcall/site.toml", "debug = true\n",      ImageRoot()};
  for (const std::optional<std::string>& before : {std::optional<std::string>(), std::optional<std::string>(""),
                                                   std::optional<std::string>("optional /x/other.so\n")}) {
    Files files;
    if (before) {
      files.texts["/etc/plugstack.conf"] = *before;
    }
    const Files untouched = files;
    SiteInput other = input;
    for (const char* plugin : {"/o/old/spank_rollcall.so", "/o/spank_rollcall.so"}) {  // and once more with a newer one
      other.plugin = plugin;
      const Result<Plan> plan = plan_site_install(other, files.read(), files.names());
      ASSERT_TRUE(plan) << plan.error().message();
      files.apply(*plan);
    }
    const Result<Plan> undo = plan_site_uninstall(other, files.read());
    ASSERT_TRUE(undo);
    files.apply(*undo);
    EXPECT_EQ(files.texts, untouched.texts);
  }
}

TEST(TaskProlog, PrintsValuesUnchangedAndWarnsOfLineFeeds) {
  resolve::EnvPatch patch;
  patch.changes = {{"A", "b 'c' $(d) ; \"e\"=f", resolve::Action::Set, "", ""},
                   {"N", "two\nlines", resolve::Action::Set, "", ""},
                   {"U", "", resolve::Action::Unset, "", ""},
                   {"K", "kept", resolve::Action::Keep, "", ""}};
  std::vector<std::string> warnings;
  const std::string lines = cli::task_prolog_lines(patch, warnings);
  EXPECT_EQ(lines, "export A=b 'c' $(d) ; \"e\"=f\nunset U\n");
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("N has a line feed")));
  Environment environment;
  environment.set("U", "x");
  cli::apply_task_prolog_lines(lines + "print export X=1\nexport\n", environment);
  EXPECT_EQ(environment.get("A"), "b 'c' $(d) ; \"e\"=f");
  EXPECT_EQ(environment.get("U"), std::nullopt);
  EXPECT_EQ(environment.variables().size(), 1U);
}

}  // namespace
}  // namespace rollcall::install
