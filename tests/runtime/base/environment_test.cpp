#include "runtime/base/environment.h"

#include <gtest/gtest.h>

namespace rollcall {
namespace {

TEST(Environment, ReadsEntriesAndIgnoresThoseWithoutAName) {
  const char* const entries[] = {"A=1", "B=x=y", "EMPTY=", "noequals", "=odd", nullptr};
  const Environment environment = Environment::from_entries(entries);
  EXPECT_EQ(environment.get("A"), "1");
  EXPECT_EQ(environment.get("B"), "x=y");
  EXPECT_EQ(environment.variables().size(), 3u);
}

TEST(Environment, NullArrayIsAnEmptyEnvironment) {
  EXPECT_TRUE(Environment::from_entries(nullptr).variables().empty());
}

TEST(Environment, EmptyValueIsSetButGetNonEmptyIgnoresIt) {
  Environment environment;
  environment.set("EMPTY", "");
  EXPECT_EQ(environment.get("EMPTY"), "");
  EXPECT_FALSE(environment.get_non_empty("EMPTY"));
  EXPECT_FALSE(environment.get("UNSET"));
}

TEST(Environment, SetReplacesAndUnsetRemoves) {
  Environment environment;
  environment.set("A", "1");
  environment.set("A", "2");
  EXPECT_EQ(environment.get("A"), "2");
  environment.unset("A");
  environment.unset("never there");
  EXPECT_FALSE(environment.get("A"));
}

TEST(Environment, OfThisProcessReadsTheProcessEnvironment) {
  ASSERT_EQ(setenv("ROLLCALL_TEST_MARK", "here", 1), 0);
  EXPECT_EQ(Environment::of_this_process().get("ROLLCALL_TEST_MARK"), "here");
  ASSERT_EQ(unsetenv("ROLLCALL_TEST_MARK"), 0);
}

}  // namespace
}  // namespace rollcall
