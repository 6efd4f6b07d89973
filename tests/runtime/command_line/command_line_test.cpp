#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "runtime/command_line/command_line.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::command_line {
namespace {

using settings::Kind;
using settings::launch_table;
using settings::Setting;
using settings::Settings;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::array kTrainerLike{
    Setting{"train-num-workers", Kind::Integer, "0", "N", "threads that load training images", "Data", "", 0, 64},
    Setting{"nesterov", Kind::Switch, "false", "on|off", "SGD: Nesterov momentum", "Training"},
    Setting{"lr", Kind::Number, "0.1", "RATE", "rate", "Training", "", -10, 10},
    Setting{"model", Kind::Choice, "small", "NAME", "network to train", "Model", "small|large"},
};
constexpr std::array kFlags{Flag{"help", 'h', "print this help"}, Flag{"json", 0, "print JSON"}};

TEST(TextTable, ReplacesControlCharacters) {
  EXPECT_EQ(text_table({{"A", "B"}, {"\x1b[2Jx", "y\n"}}), "A      B\n?[2Jx  y?\n");
}

struct Programs {
  Settings trainer{kTrainerLike};
  Settings launch{launch_table()};

  Result<ParsedCommandLine> parse(const std::vector<std::string>& arguments, StopAt stop = StopAt::Separator) {
    const std::array<Settings*, 2> targets{&trainer, &launch};
    return parse_command_line(targets, kFlags, arguments, stop);
  }
};

TEST(CommandLine, AssignsOptionsToTheTableThatDefinesThem) {
  Programs programs;
  ASSERT_TRUE(programs.parse({"--train-num-workers=8", "--port-range", "20-30", "--debug", "--nesterov=off"}));
  EXPECT_EQ(programs.trainer.integer("train-num-workers"), 8);
  EXPECT_EQ(programs.trainer.value("train-num-workers").origin, "--train-num-workers");
  EXPECT_EQ(programs.launch.text("port.range"), "20-30");
  EXPECT_TRUE(programs.launch.on("debug"));
  EXPECT_FALSE(programs.trainer.on("nesterov"));
}

TEST(CommandLine, SwitchDoesNotSwallowTheNextArgument) {
  Programs programs;
  const auto parsed = programs.parse({"--debug", "off", "--nesterov", "--lr=1"});
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(programs.launch.on("debug"));
  EXPECT_TRUE(programs.trainer.on("nesterov"));
  EXPECT_THAT(parsed->positional, ElementsAre("off"));
}

TEST(CommandLine, LastOfRepeatedOptionsWins) {
  Programs programs;
  ASSERT_TRUE(programs.parse({"--lr=1", "--lr", "2", "--lr=3"}));
  EXPECT_EQ(programs.trainer.text("lr"), "3");
}

TEST(CommandLine, NegativeNumberIsAValueInBothNotations) {
  Programs programs;
  ASSERT_TRUE(programs.parse({"--lr", "-1.5"}));
  EXPECT_EQ(programs.trainer.number("lr"), -1.5);
  ASSERT_TRUE(programs.parse({"--lr=-2"}));
  EXPECT_EQ(programs.trainer.number("lr"), -2);
}

TEST(CommandLine, EmptyValueOverridesWhatWasSetBefore) {
  Programs programs;
  ASSERT_TRUE(programs.parse({"--venv=/a", "--venv="}));
  EXPECT_EQ(programs.launch.text("venv"), "");
}

TEST(CommandLine, FlagsHaveLongAndShortNames) {
  for (const char* argument : {"--help", "-h"}) {
    Programs programs;
    const auto parsed = programs.parse({argument});
    ASSERT_TRUE(parsed) << argument;
    EXPECT_TRUE(parsed->has("help")) << argument;
    EXPECT_FALSE(parsed->has("json"));
  }
}

TEST(CommandLine, HelpTakesAnOptionalTopic) {
  for (const auto& [argument, topic] : {std::pair("--help=all", "all"), {"--help", ""}, {"--help=", ""}}) {
    Programs programs;
    const auto parsed = programs.parse({argument});
    ASSERT_TRUE(parsed) << argument;
    EXPECT_TRUE(parsed->has("help"));
    EXPECT_EQ(parsed->help_topic, topic);
  }
}

TEST(CommandLine, SeparatorEndsTheOptions) {
  Programs programs;
  const auto parsed = programs.parse({"one", "--lr=1", "two", "--", "--lr=2", "--", "x"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(programs.trainer.text("lr"), "1");
  EXPECT_THAT(parsed->positional, ElementsAre("one", "two"));
  EXPECT_THAT(parsed->program, ElementsAre("--lr=2", "--", "x"));
}

TEST(CommandLine, LeavesTheProgramsOwnArgumentsUnparsed) {
  Programs programs;
  const auto parsed =
      programs.parse({"--rendezvous", "file", "--debug", "python", "train.py", "--lr=7", "--help"}, StopAt::Positional);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(programs.launch.text("rendezvous"), "file");
  EXPECT_TRUE(programs.trainer.is_default("lr"));
  EXPECT_THAT(parsed->program, ElementsAre("python", "train.py", "--lr=7", "--help"));
  EXPECT_THAT(parsed->flags, IsEmpty());
}

TEST(CommandLine, UnknownOptionSuggestsTheNearest) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--train-num-worker=3"}, "rollcall: --train-num-worker: unknown option; try --train-num-workers"},
      {{"--train-num-worker", "3"}, "rollcall: --train-num-worker: unknown option; try --train-num-workers"},
      {{"--port.range=1-2"}, "rollcall: --port.range: unknown option; try --port-range"},
      {{"--hepl"}, "rollcall: --hepl: unknown option; try --help"},
      {{"--train"}, "rollcall: --train: unknown option; try --train-num-workers"},
      {{"-x"}, "rollcall: -x: unknown option; try --help"},
  };
  for (const auto& [arguments, message] : cases) {
    Programs programs;
    const auto parsed = programs.parse(arguments);
    ASSERT_FALSE(parsed) << message;
    EXPECT_EQ(parsed.error().message(), message);
    EXPECT_EQ(parsed.error().kind, ErrorKind::Usage);
  }
}

TEST(CommandLine, OptionsAreNotAbbreviated) {
  Programs programs;
  EXPECT_FALSE(programs.parse({"--train-num-w=3"}));
}

TEST(CommandLine, RefusesMissingAndUnexpectedValues) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--lr"}, "rollcall: --lr: lacks its value; try --lr=RATE"},
      {{"--lr", "--debug"}, "rollcall: --lr: lacks its value; try --lr=RATE"},
      {{"--lr", "--help"}, "rollcall: --lr: lacks its value; try --lr=RATE"},
      {{"--lr", "--", "program"}, "rollcall: --lr: lacks its value; try --lr=RATE"},
      {{"--venv", "--debgu"}, "rollcall: --venv: lacks its value; try --venv=DIR"},
      {{"--json=1"}, "rollcall: --json: takes no value; try --json alone"},
  };
  for (const auto& [arguments, message] : cases) {
    Programs programs;
    const auto parsed = programs.parse(arguments);
    ASSERT_FALSE(parsed) << message;
    EXPECT_EQ(parsed.error().message(), message);
  }
}

TEST(CommandLine, RefusedValueNamesTheOption) {
  Programs programs;
  const auto parsed = programs.parse({"--train-num-workers=many"});
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message(),
            "rollcall: --train-num-workers: many: is not a whole number; try giving a whole number from 0 to 64");
}

}  // namespace
}  // namespace rollcall::command_line
