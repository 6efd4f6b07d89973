#include "runtime/elastic/options.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace rollcall::elastic {
namespace {

Environment with_variable(const std::string& name, const std::string& value) {
  return Environment(std::map<std::string, std::string, std::less<>>{{name, value}});
}

Result<RunOptions> parse(const std::vector<std::string>& arguments, const Environment& environment = Environment()) {
  return parse_run_options(arguments, environment);
}

std::string value(const std::vector<std::string>& arguments, const char* name) {
  const Result<RunOptions> options = parse(arguments);
  return options ? options->values.text(name) : options.error().message();
}

TEST(RunOptions, AcceptsTorchrunsSpellingsOfOptions) {
  for (const char* spelling : {"--nproc-per-node", "--nproc_per_node", "--nproc_per-node", "--nproc", "--np"}) {
    EXPECT_EQ(value({std::string(spelling) + "=4", "x.py"}, "nproc-per-node"), "4") << spelling;
    EXPECT_EQ(value({spelling, "4", "x.py"}, "nproc-per-node"), "4") << spelling;
  }
}

TEST(RunOptions, ShortOptionsCanBeCombined) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"-mr3", "x"}, {"-m", "-r", "3", "x"}, {"-m", "-r=3", "x"}, {"-m", "-r3", "x"}}) {
    EXPECT_EQ(value(arguments, "module"), "true");
    EXPECT_EQ(value(arguments, "redirects"), "3");
  }
}

TEST(RunOptions, ArgumentsAfterTheProgramBelongToIt) {
  const Result<RunOptions> options = parse({"--nnodes=2", "x.py", "--nnodes=7", "-r", "--help"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->values.text("nnodes"), "2");
  EXPECT_EQ(options->program, (std::vector<std::string>{"x.py", "--nnodes=7", "-r", "--help"}));
  EXPECT_FALSE(options->help_topic);
  EXPECT_EQ(parse({"--", "-x"})->program, std::vector<std::string>{"-x"});
}

TEST(RunOptions, RemovesOneDoubleDashBeforeOrAfterTheProgram) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(parse({"-m", "x", "--", "--depth=12"})->program, (Words{"x", "--depth=12"}));
  EXPECT_EQ(parse({"x", "--"})->program, Words{"x"});
  EXPECT_EQ(parse({"x", "--", "--", "a"})->program, (Words{"x", "--", "a"}));
  EXPECT_EQ(parse({"x", "a", "--", "b"})->program, (Words{"x", "a", "--", "b"}));
  EXPECT_EQ(parse({"--", "x", "--", "a"})->program, (Words{"x", "--", "a"}));
}

TEST(RunOptions, AcceptsANegativeNumberAsAValueButNotAnOption) {
  for (const char* number : {"-1", "-0.5", "-.5", "- ${rank}: ", "-"}) {
    EXPECT_EQ(value({"--rdzv-id", number, "x.py"}, "rdzv-id"), number);
  }
  for (const char* option : {"-r 3", "--role=a b", "-1.", "-.", "--"}) {
    EXPECT_NE(value({"--rdzv-id", option, "x.py"}, "rdzv-id").find("needs a value"), std::string::npos) << option;
  }
  EXPECT_NE(value({"--rdzv-id", "--nnodes=2", "x.py"}, "rdzv-id").find("needs a value"), std::string::npos);
}

TEST(RunOptions, UnknownAndAmbiguousNamesAreRefusedWithTheNearest) {
  EXPECT_EQ(parse({"--nodes=2", "x.py"}).error().action, "--nnodes");
  EXPECT_NE(parse({"--rdzv=2", "x.py"}).error().action.find("--rdzv-backend, --rdzv-endpoint"), std::string::npos);
  EXPECT_EQ(parse({"--give=2", "x.py"}).error().reason, "unknown option");  // rollcall's own are not shortened
}

TEST(RunOptions, DefaultsComeFromTorchrunsVariables) {
  const Environment environment(
      {{"PET_NNODES", "1:3"}, {"PET_STANDALONE", "0"}, {"PET_NO_PYTHON", "1"}, {"PET_STATUS", "1"}});
  const Result<RunOptions> options = parse({"--nnodes=2", "x"}, environment);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->values.text("nnodes"), "2");
  EXPECT_EQ(parse({"x"}, environment)->values.value("nnodes").origin, "PET_NNODES");
  EXPECT_FALSE(options->values.on("standalone"));
  EXPECT_TRUE(options->values.on("no-python"));
  EXPECT_FALSE(options->values.on("status"));
  EXPECT_EQ(default_variable("numa-binding"), "");
  EXPECT_EQ(parse({"x"}, with_variable("PET_STANDALONE", "yes")).error().setting, "PET_STANDALONE");
}

TEST(RunOptions, SupportsAllThirtyTwoTorchrunOptions) {
  int torchruns = 0;
  for (const settings::Setting& setting : run_table()) {
    torchruns += setting.group == "Not in torchrun" ? 0 : 1;
  }
  EXPECT_EQ(torchruns, 32);
}

}  // namespace
}  // namespace rollcall::elastic
