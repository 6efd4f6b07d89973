#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/cli/env_command.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::cli {
namespace {

using resolve::Action;
using testing::HasSubstr;
using testing::Not;

resolve::EnvPatch typical_patch() {
  resolve::EnvPatch patch;
  patch.changes = {{"RANK", "0", Action::Set, "slurm", "rank of this task"},
                   {"MASTER_ADDR", "head", Action::Keep, "user", "set by the user"},
                   {"OLD", "", Action::Unset, "rollcall", "left by an outer step"}};
  patch.warnings = {"MASTER_ADDR is head,\nthe step's is jwb01i"};
  return patch;
}

/// What /bin/sh prints for `script`.
std::string shell(const std::string& script) {
  FILE* const pipe = popen(script.c_str(), "r");
  std::string output;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) {
    output += static_cast<char>(c);
  }
  EXPECT_EQ(pclose(pipe), 0) << script;
  return output;
}

TEST(EnvReport, TableIsAlignedAndComplete) {
  EXPECT_EQ(env_table(typical_patch()),
            "VARIABLE     VALUE  ACTION  ORIGIN    REASON\n"
            "RANK         0      set     slurm     rank of this task\n"
            "MASTER_ADDR  head   keep    user      set by the user\n"
            "OLD                 unset   rollcall  left by an outer step\n");
}

TEST(EnvReport, VariablesThatTheOptionSetShowTheOriginalReason) {
  resolve::EnvPatch patch;
  patch.changes = {{"MASTER_ADDR", "jwb01i", Action::Keep, "rollcall", "set for this step already"},
                   {"MASTER_PORT", "20007", Action::Keep, "rollcall", "set for this step already"},
                   {"HF_HOME", "/mine", Action::Keep, "user", "set by the user"}};
  const resolve::EnvPatch alone{{{"MASTER_ADDR", "jwb01i", Action::Set, "setting host.template", "rank 0 is there"},
                                 {"MASTER_PORT", "20001", Action::Set, "setting port.range", "hash"},
                                 {"HF_HOME", "/site", Action::Set, "setting cache.shared", "policy"}},
                                {},
                                {}};
  explain_kept(alone, patch);
  EXPECT_EQ(patch.changes[0].origin, "setting host.template");
  EXPECT_EQ(patch.changes[0].reason, "rank 0 is there");
  EXPECT_EQ(patch.changes[0].action, Action::Keep);
  EXPECT_THAT(patch.changes[1].reason,
              testing::AllOf(HasSubstr("set for this step already"), HasSubstr("20001 (hash)")));
  EXPECT_EQ(patch.changes[1].origin, "rollcall");
  EXPECT_EQ(patch.changes[2].reason, "set by the user");
}

TEST(EnvReport, TableShowsNoControlCharacters) {
  resolve::EnvPatch patch;
  patch.changes = {{"PATH", "/a\x1b[2J\n", Action::Keep, "user", "why"}};
  EXPECT_THAT(env_table(patch), HasSubstr("/a?[2J?  keep"));
}

TEST(EnvReport, TableCutsLongValues) {
  resolve::EnvPatch patch;
  patch.changes = {{"PATH", std::string(500, 'x'), Action::Set, "venv", "why"}};
  EXPECT_THAT(env_table(patch), HasSubstr("  " + std::string(45, 'x') + "...  set"));
}

TEST(EnvReport, WarningsAreOneLineEach) {
  EXPECT_EQ(warning_lines(typical_patch().all_warnings()),
            "rollcall: warning: MASTER_ADDR is head,?the step's is jwb01i\n");
}

TEST(EnvReport, ExportsOmitVariablesOfTheUser) {
  EXPECT_EQ(env_exports(typical_patch()), "export RANK='0'\nunset OLD\n");
}

TEST(EnvReport, ExportedValuesReachTheShellUnchanged) {
  for (const std::string value :
       {"", "a b", "it's", "$(echo no) `echo no` \"$HOME\"", "two\nlines", "\\", "'''", "*;&|<>#!~"}) {
    resolve::EnvPatch patch;
    patch.changes = {{"VALUE", value, Action::Set, "test", "test"}};
    EXPECT_EQ(shell(env_exports(patch) + "printf '%s' \"$VALUE\""), value);
  }
}

TEST(EnvReport, JsonHoldsFactsVariablesWarningsAndSources) {
  step::ResolvedStep step;
  step.facts.rank = 3;
  step.facts.world_size = 8;
  step.facts.job_id = 42;
  step.facts.hosts = {"a", "b"};
  step.trace = {{"slurm", true, "rank 3 of 8"}};
  step.patch = typical_patch();
  const auto json = nlohmann::json::parse(env_json(step, settings::Settings(settings::launch_table())));
  EXPECT_EQ(json["facts"]["rank"], 3);
  EXPECT_EQ(json["facts"]["job_id"], 42);
  EXPECT_TRUE(json["facts"]["step_id"].is_null());
  EXPECT_EQ(json["variables"].size(), 3u);
  EXPECT_EQ(json["variables"][1]["action"], "keep");
  EXPECT_EQ(json["warnings"][0], step.patch.warnings[0]);
  EXPECT_EQ(json["sources"][0]["answered"], true);
}

TEST(EnvReport, JsonIsValidDespiteAValueThatIsNotUtf8) {
  step::ResolvedStep step;
  step.patch.changes = {{"PATH", "/a\xff", Action::Keep, "user", "why"}};
  EXPECT_TRUE(nlohmann::json::accept(env_json(step, settings::Settings(settings::launch_table()))));
}

TEST(EnvReport, FactsNameSourcesRanksAndHosts) {
  step::ResolvedStep step;
  step.trace = {{"environment", false, "RANK is not set"}, {"slurm", true, "rank 3 of 8"}};
  step.facts.rank = 3;
  step.facts.world_size = 8;
  step.facts.hosts = {"a", "b"};
  const std::string text = facts_text(step);
  EXPECT_THAT(text, HasSubstr("environment   declined  RANK is not set\n"));
  EXPECT_THAT(text, HasSubstr("slurm         answered  rank 3 of 8\n"));
  EXPECT_THAT(text, HasSubstr("rank 3 of 8,"));
  EXPECT_THAT(text, HasSubstr("hosts a b\n"));
}

}  // namespace
}  // namespace rollcall::cli
