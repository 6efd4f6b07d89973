#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "runtime/settings/launch_settings.h"
#include "runtime/settings/settings.h"
#include "runtime/settings/values.h"

namespace rollcall::settings {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::array kTypes{
    Setting{"name", Kind::Text, "x", "TEXT", "a text", "G"},
    Setting{"count", Kind::Integer, "4", "N", "a count", "G", "auto", 1, 100},
    Setting{"rate", Kind::Number, "0.5", "RATE", "a rate", "G", "", 0, 1},
    Setting{"bold", Kind::Switch, "false", "on|off", "a switch", "G"},
    Setting{"colour", Kind::Choice, "red", "red|green", "a choice", "G", "red|green"},
    Setting{"folder", Kind::Path, "", "DIR", "a path", "G"},
    Setting{"net", Kind::Choice, "small", "NAME|FILE", "a choice or a file", "G", "small|large"}.or_file(),
    Setting{"items", Kind::List, "a", "WORD[,WORD...]", "a list", "G"},
    Setting{"ports", Kind::PortRange, "1-2", "FIRST-LAST", "ports", "G"},
};

struct ValueCase {
  const char* name;
  const char* text;
  const char* normal;  ///< nullptr: refused
};

TEST(SettingValues, EachKindAcceptsItsNotationAndNothingElse) {
  const ValueCase cases[] = {
      {"name", "any thing", "any thing"},
      {"name", "", ""},
      {"name", "a\nb", nullptr},
      {"net", "large", "large"},
      {"net", "./mine", "./mine"},
      {"net", "mine.pt", "mine.pt"},
      {"net", "${SCRATCH}/mine", "${SCRATCH}/mine"},
      {"net", "${WORK}/mine", nullptr},
      {"net", "mine", nullptr},
      {"count", "1", "1"},
      {"count", "100", "100"},
      {"count", "auto", "auto"},
      {"count", "0", nullptr},
      {"count", "101", nullptr},
      {"count", "1.5", nullptr},
      {"count", "1e2", nullptr},
      {"count", "", nullptr},
      {"count", "99999999999999999999", nullptr},
      {"rate", "3e-4", "3e-4"},
      {"rate", "1", "1"},
      {"rate", "nan", nullptr},
      {"rate", "inf", nullptr},
      {"rate", "-0.1", nullptr},
      {"rate", "1.1", nullptr},
      {"rate", "0,5", nullptr},
      {"bold", "on", "true"},
      {"bold", "yes", "true"},
      {"bold", "1", "true"},
      {"bold", "off", "false"},
      {"bold", "no", "false"},
      {"bold", "0", "false"},
      {"bold", "maybe", nullptr},
      {"bold", "", nullptr},
      {"colour", "green", "green"},
      {"colour", "gren", nullptr},
      {"colour", "", nullptr},
      {"folder", "", ""},
      {"folder", "/a b/${SCRATCH}/c", "/a b/${SCRATCH}/c"},
      {"folder", "${EDITOR}", nullptr},
      {"folder", "$HOME/x", nullptr},
      {"folder", "~/x", nullptr},
      {"items", "ib0, ib1", "ib0,ib1"},
      {"items", "ib0", "ib0"},
      {"items", "", nullptr},
      {"items", "a,,b", nullptr},
      {"ports", "1-65535", "1-65535"},
      {"ports", "5-5", "5-5"},
      {"ports", "0-5", nullptr},
      {"ports", "6-5", nullptr},
      {"ports", "5", nullptr},
      {"ports", "1-65536", nullptr},
      {"ports", "1-2-3", nullptr},
      {"ports", "1 - 2", nullptr},
  };
  for (const ValueCase& c : cases) {
    Settings settings(kTypes);
    const Result<void> set = settings.set(c.name, c.text, "test");
    EXPECT_EQ(set.has_value(), c.normal != nullptr) << c.name << " = " << c.text;
    if (set && c.normal != nullptr) {
      EXPECT_EQ(settings.text(c.name), c.normal);
    }
  }
}

TEST(SettingValues, GettersGiveTheTypeOfTheKind) {
  const Settings settings(kTypes);
  EXPECT_EQ(settings.integer("count"), 4);
  EXPECT_EQ(settings.number("rate"), 0.5);
  EXPECT_FALSE(settings.on("bold"));
  EXPECT_THAT(settings.list("items"), ElementsAre("a"));
  EXPECT_EQ(settings.port_range("ports"), std::pair(std::uint16_t{1}, std::uint16_t{2}));
}

TEST(SettingValues, ValueKeepsItsOrigin) {
  Settings settings(kTypes);
  EXPECT_TRUE(settings.is_default("count"));
  ASSERT_TRUE(settings.set("count", "4", "ROLLCALL_COUNT"));
  EXPECT_FALSE(settings.is_default("count"));
  EXPECT_EQ(settings.value("count").origin, "ROLLCALL_COUNT");
}

TEST(SettingValues, RefusedValueLeavesTheOldOne) {
  Settings settings(kTypes);
  ASSERT_FALSE(settings.set("count", "0", "test"));
  EXPECT_EQ(settings.text("count"), "4");
  EXPECT_EQ(settings.value("count").origin, "default");
}

TEST(SettingValues, ErrorNamesSettingValueAndWhatIsAccepted) {
  Settings settings(kTypes);
  EXPECT_EQ(settings.set("count", "0", "--count").error().message(),
            "rollcall: --count: 0: is out of range; try giving a whole number from 1 to 100, or auto");
  EXPECT_EQ(settings.set("count", "0", "ROLLCALL_COUNT").error().setting, "ROLLCALL_COUNT");
  EXPECT_EQ(settings.set("count", "0", "elsewhere").error().setting, "count");
}

TEST(SettingValues, MistypedChoiceSuggestsTheNearestOne) {
  Settings settings(kTypes);
  EXPECT_EQ(settings.set("colour", "gren", "--colour").error().message(),
            "rollcall: --colour: gren: is not one of red, green; try --colour=green");
}

TEST(SettingValues, UnknownNameSuggestsTheNearestKnownOne) {
  Settings settings(kTypes);
  const Result<void> set = settings.set("colur", "red", "test");
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().message(), "rollcall: colur: unknown setting; try colour");
}

TEST(SettingValues, DotsDashesAndUnderscoresAreTheSameInNames) {
  const Table table = launch_table();
  for (const char* name : {"port.range", "port-range", "port_range"}) {
    ASSERT_NE(find_setting(table, name), nullptr) << name;
    EXPECT_EQ(find_setting(table, name)->name, "port.range");
  }
  EXPECT_EQ(find_setting(table, "portrange"), nullptr);
}

TEST(SettingValues, NamesOfOptionAndVariableFollowFromTheSetting) {
  EXPECT_EQ(option_name("port.range"), "--port-range");
  EXPECT_EQ(variable_name("port.range"), "ROLLCALL_PORT_RANGE");
  EXPECT_EQ(variable_name("train-num-workers"), "ROLLCALL_TRAIN_NUM_WORKERS");
}

TEST(SettingValues, EveryDefaultOfTheLaunchTablePassesItsOwnCheck) {
  for (const Setting& setting : launch_table()) {
    const Result<std::string> normal = normal_form(setting, setting.default_text, std::string(setting.name));
    ASSERT_TRUE(normal) << normal.error().message();
    EXPECT_EQ(*normal, setting.default_text) << "in normal form: " << setting.name;
  }
}

TEST(SettingValues, OptionsOfTheLaunchTableAreDistinctAndDocumented) {
  std::set<std::string> options;
  for (const Setting& setting : launch_table()) {
    EXPECT_TRUE(options.insert(option_name(setting.name)).second) << setting.name;
    EXPECT_FALSE(setting.help.empty() || setting.argument.empty() || setting.group.empty()) << setting.name;
    EXPECT_FALSE(setting.help.ends_with('.')) << setting.name;
  }
}

Environment typical() {
  return Environment(
      {{"SCRATCH", "/scratch/ada"}, {"USER", "ada"}, {"SLURM_JOB_ID", "42"}, {"HOME", ""}, {"EVIL", "x"}});
}

Result<std::string> expand(std::string_view path, const Environment& environment) {
  return expand_path(path, environment, "path");
}

TEST(PathExpansion, ReplacesKnownVariablesAnywhereInThePath) {
  EXPECT_EQ(*expand("${SCRATCH}/cache-${USER}/${SLURM_JOB_ID}", typical()), "/scratch/ada/cache-ada/42");
  EXPECT_EQ(*expand("/plain/path", typical()), "/plain/path");
  EXPECT_EQ(*expand("", typical()), "");
}

TEST(PathExpansion, DoesNotPassThePathToAShell) {
  EXPECT_EQ(*expand("/tmp/`id`;*?(x)", typical()), "/tmp/`id`;*?(x)");
  EXPECT_FALSE(expand("$(id)", typical()));
}

TEST(PathExpansion, VariableMustHoldAnAbsolutePath) {
  for (const char* const value : {"~/x", "x", "./x", "~"}) {
    const Environment environment({{"SCRATCH", value}, {"USER", "me"}});
    const Result<std::string> expanded = expand_path("${SCRATCH}/.cache", environment, "cache.shared");
    ASSERT_FALSE(expanded) << value;
    EXPECT_EQ(expanded.error().reason, std::string("SCRATCH is ") + value + ", which is not an absolute path");
    EXPECT_EQ(*expand_path("/tmp/${USER}", environment, "cache.local"), "/tmp/me");
  }
}

TEST(PathExpansion, ReplacedValueIsNotExpandedAgain) {
  const Environment environment({{"SCRATCH", "/${USER}"}, {"USER", "ada"}});
  EXPECT_EQ(*expand("${SCRATCH}", environment), "/${USER}");
}

TEST(PathExpansion, UnsetOrEmptyVariableIsAnErrorThatNamesIt) {
  for (const char* path : {"${TMPDIR}/x", "${HOME}/x"}) {
    const Result<std::string> expanded = expand_path(path, typical(), "cache.local");
    ASSERT_FALSE(expanded) << path;
    EXPECT_EQ(expanded.error().setting, "cache.local");
    EXPECT_THAT(expanded.error().reason, HasSubstr("is not set"));
  }
}

TEST(PathExpansion, OtherVariablesAreRefusedWithTheNearest) {
  EXPECT_EQ(check_path_variables("${SCRACH}/x", "venv").error().action, "writing ${SCRATCH}");
  EXPECT_EQ(check_path_variables("$SCRATCH/x", "venv").error().action, "writing ${SCRATCH}");
  EXPECT_EQ(check_path_variables("~/x", "venv").error().action, "writing ${HOME}/x");
  for (const char* path : {"${EVIL}", "${}", "${SCRATCH", "a$", "$$"}) {
    EXPECT_FALSE(check_path_variables(path, "venv")) << path;
    EXPECT_FALSE(expand(path, typical())) << path;
  }
}

}  // namespace
}  // namespace rollcall::settings
