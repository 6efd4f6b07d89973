#include "runtime/command_line/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "runtime/settings/launch_settings.h"

namespace rollcall::command_line {
namespace {

using settings::Kind;
using settings::Setting;
using testing::HasSubstr;
using testing::Not;

constexpr std::array kTable{
    Setting{"workers", Kind::Integer, "0", "N", "Threads that load. 0: the main thread loads", "Data", "", 0, 64}
        .common(),
    Setting{"flip", Kind::Number, "0.5", "P", "Probability of a flip", "Data"},
    Setting{"model", Kind::Choice, "small", "NAME", "Network to train. small is quick", "Nodes and workers",
            "small|large"}
        .common(),
    Setting{"dots", Kind::Text, "", "TEXT", ".a\\b", "Nodes and workers"},
};

HelpPage page() {
  return {.name = "rollcall-tool",
          .text = "usage: rollcall-tool\n",
          .flags = {kHelp, Flag{"json", 0, "Print JSON"}, Flag{"hidden", 0, ""}},
          .tables = {kTable},
          .closing = "\nExit codes: 0\n"};
}

std::string text_of(const HelpPage& page, std::string_view topic) {
  const Result<std::string> text = help_text(page, topic);
  return text ? *text : text.error().message();
}

TEST(HelpText, ShowsCommonOptionsWithTheFirstSentenceOfTheirHelp) {
  EXPECT_EQ(text_of(page(), ""),
            "usage: rollcall-tool\n"
            "\n"
            "Options:\n"
            "  -h, --help[=all|data|nodes-and-workers]\n"
            "                                  Show the common options, all of them, or those of one group\n"
            "  --json                          Print JSON\n"
            "\n"
            "Data (default in brackets):\n"
            "  --workers=N                     Threads that load [0]\n"
            "\n"
            "Nodes and workers (default in brackets):\n"
            "  --model=NAME                    Network to train: small|large [small]\n"
            "\n"
            "Exit codes: 0\n");
}

TEST(HelpText, AllShowsEveryOptionWithItsFullHelp) {
  const std::string text = text_of(page(), "all");
  for (const char* const line :
       {"  --workers=N                     Threads that load. 0: the main thread loads [0]\n",
        "  --flip=P                        Probability of a flip [0.5]\n",
        "  --model=NAME                    Network to train: small|large. small is quick [small]\n",
        "  --dots=TEXT "}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
}

TEST(HelpText, GroupTopicShowsOnlyItsOptions) {
  const std::string text = text_of(page(), "nodes-and-workers");
  EXPECT_THAT(text, HasSubstr("Nodes and workers (default in brackets):\n  --model=NAME"));
  EXPECT_THAT(text, Not(HasSubstr("--workers")));
}

TEST(HelpText, UnknownTopicListsTheValidTopics) {
  HelpPage tool = page();
  EXPECT_EQ(text_of(tool, "dta"),
            "rollcall: --help: dta: is not a group of options; try --help=all or --help=GROUP (groups: data, "
            "nodes-and-workers)");
  tool.takes_launch_settings = true;
  EXPECT_THAT(text_of(tool, "network"), HasSubstr("is a group of launch settings; try rollcall help settings network"));
}

TEST(HelpText, WithoutCommonOptionsEveryOptionIsShown) {
  HelpPage tool{.name = "rollcall-tool", .text = "usage\n", .tables = {settings::launch_table()}};
  const std::string text = text_of(tool, "");
  for (const Setting& setting : settings::launch_table()) {
    EXPECT_THAT(text, HasSubstr("\n  " + settings::option_name(setting.name)));
    EXPECT_THAT(text, HasSubstr(std::string(setting.group) + " (default in brackets):\n"));
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(HelpText, CommandsAreTopicsToo) {
  HelpPage tool{.name = "rollcall-tool", .text = "usage: rollcall-tool COMMAND\n"};
  tool.commands.push_back({.name = "rollcall-tool ls", .text = "usage: rollcall-tool ls\n", .tables = {kTable}});
  EXPECT_THAT(text_of(tool, "ls"), HasSubstr("usage: rollcall-tool ls\n\nData (default in brackets):\n  --workers=N "));
  EXPECT_THAT(text_of(tool, ""), Not(HasSubstr("--workers")));
  EXPECT_THAT(text_of(tool, "all"), HasSubstr("\nrollcall-tool ls\nData (default in brackets):\n  --workers=N "));
}

TEST(HelpText, RoffTopicEscapesTextForTroff) {
  const std::string text = text_of(page(), "roff");
  EXPECT_THAT(text, HasSubstr(".TP\n\\fB\\-\\-flip\\fR=P\nProbability of a flip. Default: 0.5.\n"));
  EXPECT_THAT(text, HasSubstr(".SS \"Nodes and workers\"\n"));
  EXPECT_THAT(text, HasSubstr("\n\\&.a\\eb.\n"));
}

TEST(HelpText, WrapBreaksAtBlanksAndIndents) {
  EXPECT_EQ(wrap("aa bb cc", 5, 2), "aa bb\n  cc");
  EXPECT_EQ(wrap("a-long-word b", 5, 0), "a-long-word\nb");
}

}  // namespace
}  // namespace rollcall::command_line
