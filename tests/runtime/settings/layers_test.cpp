#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"

namespace rollcall::settings {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

constexpr std::array kLayered{
    Setting{"train-num-workers", Kind::Integer, "0", "N", "workers", "Data", "", 0, 64},
    Setting{"lr", Kind::Number, "0.1", "RATE", "rate", "Training", "", 0, 10},
};

class SettingsLayers : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/settingsXXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
    return path;
  }

  /// The error of reading `content`, which must be wrong.
  Error refused(const std::string& content, std::string_view section = {}) const {
    Settings settings(launch_table());
    const Result<void> applied = apply_toml_file(settings, write("wrong.toml", content), true, section);
    return applied ? fail("", "", "was accepted", "") : applied.error();
  }

  std::filesystem::path folder_;
};

Environment variables_only(std::map<std::string, std::string, std::less<>> variables) {
  return Environment(std::move(variables));
}

TEST_F(SettingsLayers, TomlTablesDottedKeysAndDashesMeanTheSame) {
  for (const char* content : {"[port]\nrange = '20-30'\n", "port.range = '20-30'\n", "port-range = '20-30'\n",
                              "'port.range' = '20-30'\n", "port = { range = '20-30' }\n"}) {
    Settings settings(launch_table());
    const std::string path = write("site.toml", content);
    const Result<void> applied = apply_toml_file(settings, path, true);
    ASSERT_TRUE(applied) << content << applied.error().message();
    EXPECT_EQ(settings.text("port.range"), "20-30");
    EXPECT_EQ(settings.value("port.range").origin, path);
  }
}

TEST_F(SettingsLayers, TomlValuesAreConvertedToText) {
  Settings settings(launch_table());
  const std::string path = write("site.toml",
                                 "threads = 8\ndebug = true\nrendezvous = 'file'\nrendezvous-timeout = 2.5\n"
                                 "[interface]\ngloo = ['ib0', 'ib1']\nnccl = 'ib'\n");
  const Result<void> applied = apply_toml_file(settings, path, true);
  ASSERT_TRUE(applied) << applied.error().message();
  EXPECT_EQ(settings.text("threads"), "8");
  EXPECT_TRUE(settings.on("debug"));
  EXPECT_EQ(settings.number("rendezvous.timeout"), 2.5);
  EXPECT_THAT(settings.list("interface.gloo"), ElementsAre("ib0", "ib1"));
  EXPECT_THAT(settings.list("interface.nccl"), ElementsAre("ib"));
}

TEST_F(SettingsLayers, TomlErrorNamesFileLineKeyAndNearestName) {
  const Error unknown = refused("threads = 1\n[prot]\nrange = '1-2'\n");
  EXPECT_EQ(unknown.setting, (folder_ / "wrong.toml").string() + ":3: prot.range");
  EXPECT_EQ(unknown.action, "port.range");
  EXPECT_EQ(unknown.kind, ErrorKind::Configuration);
  const Error value = refused("\nthreads = 0\n");
  EXPECT_EQ(value.setting, (folder_ / "wrong.toml").string() + ":2: threads");
  EXPECT_EQ(value.value, "0");
}

TEST_F(SettingsLayers, TomlSyntaxErrorNamesItsLine) {
  const Error error = refused("threads = 1\nport.range = = 2\n");
  EXPECT_THAT(error.setting, EndsWith("wrong.toml:2"));
  EXPECT_EQ(error.kind, ErrorKind::Configuration);
}

TEST_F(SettingsLayers, TomlValueOfTheWrongTypeIsRefused) {
  for (const char* content : {"threads = ['1']\n", "port.range = 1979-05-27\n", "interface.gloo = ['ib0,ib1']\n",
                              "interface.gloo = [['ib0']]\n", "threads = 1.5\n"}) {
    EXPECT_EQ(refused(content).kind, ErrorKind::Configuration) << content;
  }
}

TEST_F(SettingsLayers, MissingFileIsAnErrorOnlyWhereItIsRequired) {
  Settings settings(launch_table());
  EXPECT_TRUE(apply_toml_file(settings, folder_ / "none.toml", false));
  const Result<void> required = apply_toml_file(settings, folder_ / "none.toml", true);
  ASSERT_FALSE(required);
  EXPECT_EQ(required.error().kind, ErrorKind::NoInput);
  EXPECT_EQ(required.error().reason, "No such file or directory");
}

TEST_F(SettingsLayers, FolderInPlaceOfTheFileIsAnError) {
  Settings settings(launch_table());
  const Result<void> applied = apply_toml_file(settings, folder_, false);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().kind, ErrorKind::NoInput);
  EXPECT_EQ(applied.error().setting, folder_);
  EXPECT_THAT(applied.error().action,
              testing::StartsWith("setting XDG_CONFIG_HOME "));  // a HOME that may not be entered
}

TEST_F(SettingsLayers, EachProgramReadsItsOwnPartOfTheFile) {
  const std::string path = write("site.toml", "threads = 3\n[trainer]\ntrain-num-workers = 8\nlr = 0.5\n");
  Settings launch(launch_table());
  Settings trainer(kLayered);
  ASSERT_TRUE(apply_toml_file(launch, path, true));
  ASSERT_TRUE(apply_toml_file(trainer, path, true, kTrainerSection));
  EXPECT_EQ(launch.text("threads"), "3");
  EXPECT_EQ(trainer.integer("train-num-workers"), 8);
  EXPECT_EQ(trainer.number("lr"), 0.5);
  EXPECT_EQ(refused("trainer = 1\n", kTrainerSection).kind, ErrorKind::Configuration);
}

TEST_F(SettingsLayers, EnvironmentVariablesSetSettings) {
  Settings settings(launch_table());
  const auto environment = variables_only({{"ROLLCALL_PORT_RANGE", "20-30"}, {"PORT_RANGE", "1-2"}});
  ASSERT_TRUE(apply_environment(settings, environment));
  EXPECT_EQ(settings.text("port.range"), "20-30");
  EXPECT_EQ(settings.value("port.range").origin, "ROLLCALL_PORT_RANGE");
}

TEST_F(SettingsLayers, MistypedVariableIsRefusedWithTheNearest) {
  Settings settings(launch_table());
  const Result<void> applied = apply_environment(settings, variables_only({{"ROLLCALL_PROT_RANGE", "20-30"}}));
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().message(), "rollcall: ROLLCALL_PROT_RANGE: unknown setting; try ROLLCALL_PORT_RANGE");
}

TEST_F(SettingsLayers, InternalVariablesAreNotTreatedAsSettings) {
  Settings settings(launch_table());
  const std::array<Table, 1> others{kLayered};
  EXPECT_TRUE(apply_environment(settings,
                                variables_only({{"ROLLCALL_SET", "RANK:0"},
                                                {"ROLLCALL_STEP", "1.0"},
                                                {"ROLLCALL_SITE_CONFIG", "x"},
                                                {"ROLLCALL_TEST_SLURM", "trixie"}}),
                                others));
}

TEST_F(SettingsLayers, IgnoresVariablesOfOtherTables) {
  const auto environment = variables_only({{"ROLLCALL_TRAIN_NUM_WORKERS", "8"}, {"ROLLCALL_LR", "1"}});
  Settings alone(launch_table());
  EXPECT_TRUE(apply_environment(alone, environment)) << "a program that knows one table only";
  Settings informed(launch_table());
  const std::array<Table, 1> others{kLayered};
  EXPECT_TRUE(apply_environment(informed, environment, others));
}

TEST_F(SettingsLayers, ProgramThatKnowsAllTablesRefusesEveryUnknownVariable) {
  Settings settings(launch_table());
  const std::array<Table, 1> others{kLayered};
  const auto far = variables_only({{"ROLLCALL_SOMETHING_ELSE", "1"}});
  EXPECT_FALSE(apply_environment(settings, far, others));
  EXPECT_TRUE(apply_environment(settings, far));
  const auto near_other = variables_only({{"ROLLCALL_TRAIN_NUM_WORKER", "1"}});
  const Result<void> applied = apply_environment(settings, near_other, others);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().action, "ROLLCALL_TRAIN_NUM_WORKERS");
}

TEST_F(SettingsLayers, KeyValuesOfTheOptionAreAppliedInOrder) {
  Settings settings(launch_table());
  ASSERT_TRUE(apply_key_values(settings, "port.range=1-2, debug, interface.gloo=ib0+ib1,port-range=20-30", "--ddp"));
  EXPECT_EQ(settings.text("port.range"), "20-30");
  EXPECT_EQ(settings.value("port.range").origin, "--ddp");
  EXPECT_TRUE(settings.on("debug"));
  EXPECT_THAT(settings.list("interface.gloo"), ElementsAre("ib0", "ib1"));
  EXPECT_TRUE(apply_key_values(settings, "", "--ddp"));
}

TEST_F(SettingsLayers, PlusIsASeparatorInListsOnly) {
  Settings settings(launch_table());
  ASSERT_TRUE(apply_key_values(settings, "venv=/opt/c++", "--ddp"));
  EXPECT_EQ(settings.text("venv"), "/opt/c++");
}

TEST_F(SettingsLayers, WrongKeyValuesAreRefusedWithTheOptionNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"prot.range=1-2", "rollcall: --ddp=prot.range: unknown setting; try port.range"},
      {"port.range", "rollcall: --ddp=port.range: lacks a value; try port.range=FIRST-LAST"},
      {"debug,,threads=1", "rollcall: --ddp: debug,,threads=1: has an empty entry; try --ddp=key=value,key=value"},
      {"debug=maybe",
       "rollcall: --ddp=debug: maybe: is neither true nor false; try giving true or false (also on|off, yes|no, 1|0), "
       "or "
       "collectives"},
  };
  for (const auto& [text, message] : cases) {
    Settings settings(launch_table());
    const Result<void> applied = apply_key_values(settings, text, "--ddp");
    ASSERT_FALSE(applied) << text;
    EXPECT_EQ(applied.error().message(), message);
  }
}

TEST_F(SettingsLayers, UserFileOverridesTheSiteAndVariablesOverrideBoth) {
  const std::string site = write("site.toml", "threads = 1\n[host]\ntemplate = '{host}i'\n[port]\nrange = '1-2'\n");
  write("home/.config/rollcall/config.toml", "threads = 2\n[port]\nrange = '3-4'\n");
  const auto environment =
      variables_only({{"HOME", folder_ / "home"}, {"ROLLCALL_SITE_CONFIG", site}, {"ROLLCALL_PORT_RANGE", "5-6"}});
  const Result<Settings> settings = load_launch_settings(environment);
  ASSERT_TRUE(settings) << settings.error().message();
  EXPECT_EQ(settings->text("host.template"), "{host}i");
  EXPECT_EQ(settings->text("threads"), "2");
  EXPECT_EQ(settings->text("port.range"), "5-6");
}

TEST_F(SettingsLayers, ExplicitSiteFileHasPrecedenceAndAMissingOneIsAnError) {
  const std::string site = write("site.toml", "threads = 1\n");
  const auto environment = variables_only({{"ROLLCALL_SITE_CONFIG", folder_ / "none.toml"}});
  ASSERT_TRUE(load_launch_settings(environment, {.site = {.file = site, .owners = {.anybody = true}}}));
  EXPECT_EQ(load_launch_settings(environment, {.site = {.file = site, .owners = {.anybody = true}}})->text("threads"),
            "1");
  EXPECT_FALSE(load_launch_settings(environment));
}

TEST_F(SettingsLayers, ReadsTheUsersFileFromXdgConfigHome) {
  write("xdg/rollcall/config.toml", "threads = 5\n[trainer]\nlr = 2\n");
  const auto environment = variables_only({{"HOME", folder_ / "home"}, {"XDG_CONFIG_HOME", folder_ / "xdg"}});
  EXPECT_EQ(load_launch_settings(environment)->text("threads"), "5");
  const Result<Settings> trainer = load_settings(kLayered, environment, StandardLayers{.section = kTrainerSection});
  ASSERT_TRUE(trainer) << trainer.error().message();
  EXPECT_EQ(trainer->number("lr"), 2);
}

}  // namespace
}  // namespace rollcall::settings
