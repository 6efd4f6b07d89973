#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/settings/path_expansion.h"

namespace rollcall::settings {
namespace {

using testing::HasSubstr;

Environment typical() {
  return Environment(
      {{"SCRATCH", "/scratch/ada"}, {"USER", "ada"}, {"SLURM_JOB_ID", "42"}, {"HOME", ""}, {"EVIL", "x"}});
}

TEST(PathExpansion, ReplacesTheKnownVariablesWhereverTheyStand) {
  EXPECT_EQ(*expand_path("${SCRATCH}/cache-${USER}/${SLURM_JOB_ID}", typical()), "/scratch/ada/cache-ada/42");
  EXPECT_EQ(*expand_path("/plain/path", typical()), "/plain/path");
  EXPECT_EQ(*expand_path("", typical()), "");
}

TEST(PathExpansion, NoShellSeesThePath) {
  EXPECT_EQ(*expand_path("/tmp/`id`;*?(x)", typical()), "/tmp/`id`;*?(x)");
  EXPECT_FALSE(expand_path("$(id)", typical()));
}

TEST(PathExpansion, ReplacedValueIsNotExpandedAgain) {
  const Environment environment({{"SCRATCH", "${USER}"}, {"USER", "ada"}});
  EXPECT_EQ(*expand_path("${SCRATCH}", environment), "${USER}");
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
  EXPECT_EQ(check_path_variables("${SCRACH}/x", "venv").error().action, "${SCRATCH}");
  EXPECT_EQ(check_path_variables("$SCRATCH/x", "venv").error().action, "${SCRATCH}");
  EXPECT_EQ(check_path_variables("~/x", "venv").error().action, "${HOME}/x");
  for (const char* path : {"${EVIL}", "${}", "${SCRATCH", "a$", "$$"}) {
    EXPECT_FALSE(check_path_variables(path, "venv")) << path;
    EXPECT_FALSE(expand_path(path, typical())) << path;
  }
}

}  // namespace
}  // namespace rollcall::settings
