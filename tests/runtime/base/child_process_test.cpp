#include "runtime/base/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rollcall {
namespace {

using testing::HasSubstr;

const Environment kOwn = Environment::of_this_process();

TEST(ChildProcess, ReturnsOutputAndReportsFailure) {
  constexpr std::chrono::seconds kPatience{60};
  const Result<std::string> text = output_of({"printf", "%s|", "a b", "$HOME"}, kOwn, kPatience);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "a b|$HOME|");
  EXPECT_FALSE(output_of({"rollcall-no-such-program"}, kOwn, kPatience));
  EXPECT_FALSE(output_of({"false"}, kOwn, kPatience));
}

TEST(ChildProcess, FailsWhenItExceedsTheTimeLimit) {
  const Result<std::string> text = output_of({"sleep", "600"}, kOwn, std::chrono::milliseconds(50));
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().reason, HasSubstr("did not finish within 0.05 s"));
}

}  // namespace
}  // namespace rollcall
