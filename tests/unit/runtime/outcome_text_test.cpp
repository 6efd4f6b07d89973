#include "runtime/base/outcome_text.h"

#include <gtest/gtest.h>

namespace rollcall {
namespace {

TEST(OutcomeText, SuccessIsNothing) {
  EXPECT_EQ(serialise(Result<void>()), "");
  ASSERT_TRUE(parse_outcome(""));
  EXPECT_TRUE(parse_outcome("")->has_value());
}

TEST(OutcomeText, AnErrorArrivesWhole) {
  const Error error = fail("--data", "/a \n\xff", "", "", ExitCode::BadData);
  const auto outcome = parse_outcome(serialise(error));
  ASSERT_TRUE(outcome && !*outcome);
  EXPECT_EQ(outcome->error().setting, error.setting);
  EXPECT_EQ(outcome->error().value, error.value);
  EXPECT_EQ(outcome->error().reason, "");
  EXPECT_EQ(outcome->error().action, "");
  EXPECT_EQ(outcome->error().exit_code, ExitCode::BadData);
}

TEST(OutcomeText, ANulInsideOfAFieldDoesNotShiftTheOthers) {
  const std::string value("a\0b", 3);
  const auto outcome = parse_outcome(serialise(fail("key", value, "is odd", "another")));
  ASSERT_TRUE(outcome && !*outcome);
  EXPECT_EQ(outcome->error().value, "a?b");
  EXPECT_EQ(outcome->error().action, "another");
}

TEST(OutcomeText, OtherTextIsNoOutcome) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"64"sv, "x\0a\0b\0c\0d"sv, "64\0a\0b\0c"sv, "64\0a\0b\0c\0d\0e"sv}) {
    EXPECT_FALSE(parse_outcome(text)) << text;
  }
}

}  // namespace
}  // namespace rollcall
