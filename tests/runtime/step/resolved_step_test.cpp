#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::step {
namespace {

using testing::StartsWith;

settings::Settings settings_of(const std::map<std::string, std::string>& values) {
  settings::Settings settings(settings::launch_table());
  for (const auto& [name, value] : values) {
    const Result<void> set = settings.set(name, value, "test");
    EXPECT_TRUE(set) << set.error().message();
  }
  return settings;
}

Environment holding(const char* name, const char* value) {
  Environment environment;
  environment.set(name, value);
  return environment;
}

TEST(ResolvedStep, OfOneProcessIsComplete) {
  const auto step = resolve_this_step(holding("PATH", "/bin"), settings_of({}), nullptr);
  ASSERT_TRUE(step) << step.error().message();
  EXPECT_EQ(step->facts.source, "single");
  EXPECT_EQ(step->trace.size(), 6U);
  const Environment after = resolve::apply(step->patch, Environment());
  EXPECT_EQ(after.get("WORLD_SIZE"), "1");
  EXPECT_EQ(after.get("MASTER_ADDR"), "127.0.0.1");
  EXPECT_TRUE(after.get("MASTER_PORT"));
}

Environment slurm_step(const char* list, const char* nodes) {
  return Environment({{"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "1"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NODEID", "1"},
                      {"SLURM_STEP_NUM_TASKS", nodes},
                      {"SLURM_STEP_NUM_NODES", nodes},
                      {"SLURM_STEP_NODELIST", list},
                      {"SLURM_STEP_TASKS_PER_NODE", std::string("1(x") + nodes + ")"}});
}

TEST(ResolvedStep, OfSeveralNodesOnOneMachineUsesTheHostTemplate) {
  const auto settings = settings_of({{"host.template", "localhost"}, {"host.loopback", "allow"}});
  const auto step = resolve_this_step(slurm_step("rollcall-nowhere[1-2]", "2"), settings, nullptr);
  ASSERT_TRUE(step) << step.error().message();
  EXPECT_EQ(step->patch.find("MASTER_ADDR")->value, "localhost");
  EXPECT_EQ(step->patch.find("GLOO_SOCKET_IFNAME")->value, "lo");
}

TEST(ResolvedStep, UnknownHeadIsAnErrorUnlessTheUserSetsMasterAddr) {
  Environment user = slurm_step("rollcall-nowhere[1-2]", "2");
  user.set("SLURM_DISTRIBUTION", "arbitrary");
  for (const char* const rank : {"0", "1"}) {
    user.set("SLURM_PROCID", rank);
    user.set("SLURM_NODEID", rank);
    const auto step =
        resolve_this_step(user, settings_of({{"host.template", "localhost"}, {"host.loopback", "allow"}}), nullptr);
    ASSERT_TRUE(step) << step.error().message();
    const Result<void> known = check_head_is_known(step->facts, step->patch);
    ASSERT_FALSE(known) << rank;
    EXPECT_EQ(known.error().kind, ErrorKind::Unavailable);
  }
  user.set("MASTER_ADDR", "localhost");
  const auto step = resolve_this_step(user, settings_of({{"interface.gloo", "none"}}), nullptr);
  ASSERT_TRUE(step) << step.error().message();
  EXPECT_TRUE(check_head_is_known(step->facts, step->patch));
}

TEST(ResolvedStep, HeadThatDoesNotResolveIsAnError) {
  const auto step =
      resolve_this_step(slurm_step("rollcall-nowhere[1-2]", "2"), settings_of({{"host.template", "{host}i"}}), nullptr);
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().kind, ErrorKind::Unavailable);
  EXPECT_THAT(step.error().message(),
              StartsWith("rollcall: host.template: rollcall-nowhere1i: does not resolve on rollcall-nowhere2"));
}

}  // namespace
}  // namespace rollcall::step
