#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "runtime/base/result.h"

namespace rollcall {
namespace {

TEST(Error, MessageNamesSettingValueReasonAndAction) {
  EXPECT_EQ(fail("port.range", "1", "is empty", "20000-29999").message(),
            "rollcall: port.range: 1: is empty; try 20000-29999");
}

TEST(Error, MessageLeavesOutWhatIsEmpty) {
  EXPECT_EQ(fail("--data", "", "is missing", "--data=DIR").message(), "rollcall: --data: is missing; try --data=DIR");
  EXPECT_EQ(fail("--data", "x", "is missing", "").message(), "rollcall: --data: x: is missing");
}

TEST(Error, MessageReplacesControlCharacters) {
  const std::string message = fail("name", "a\nb\x1b[31m\x7f", "is odd", "another").message();
  EXPECT_EQ(message, "rollcall: name: a?b?[31m?: is odd; try another");
}

TEST(Error, MessageTruncatesLongFields) {
  const std::string message =
      fail("--ddp", std::string(999, 'x') + "\u20ac" + std::string(120'000, 'y'), "is no option", "").message();
  EXPECT_EQ(message, "rollcall: --ddp: " + std::string(999, 'x') + "... (121002 bytes): is no option");
  EXPECT_LT(fail("a", "", std::string(120'000, 'r'), std::string(120'000, 't')).message().size(), 9000U);
}

TEST(Error, TextIsTheMessageWithoutTheProgramName) {
  EXPECT_EQ("rollcall: " + fail("a", "b", "is wrong", "c").text(), fail("a", "b", "is wrong", "c").message());
}

TEST(Error, KindIsUsageByDefault) {
  EXPECT_EQ(fail("a", "", "b", "c").kind, ErrorKind::Usage);
  EXPECT_EQ(fail("a", "", "b", "c", ErrorKind::Mismatch).kind, ErrorKind::Mismatch);
}

TEST(Error, ErrnoTextIsTheSystemsOwn) { EXPECT_EQ(errno_text(ENOSPC), "No space left on device"); }

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good = 3;
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 3);
  const Result<int> bad = fail("a", "b", "c", "d");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().setting, "a");
}

TEST(Result, VoidResultIsSuccessUnlessGivenAnError) {
  EXPECT_TRUE(Result<void>());
  EXPECT_FALSE(Result<void>(fail("a", "b", "c", "d")));
}

TEST(Result, ValueThatCannotBeCopiedIsMovedOut) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 7);
}

TEST(Result, ReadingTheValueOfAFailedResultIsCaught) {
#ifdef NDEBUG
  GTEST_SKIP() << "compiled without assertions";
#endif
  const Result<int> bad = fail("a", "b", "c", "d");
  EXPECT_DEATH({ [[maybe_unused]] const int value = *bad; }, "has_value");
}

TEST(OutcomeText, SuccessIsEmptyText) {
  EXPECT_EQ(serialise(Result<void>()), "");
  ASSERT_TRUE(parse_outcome(""));
  EXPECT_TRUE(parse_outcome("")->has_value());
}

TEST(OutcomeText, ErrorIsUnchangedAfterSerialiseAndParse) {
  const Error error = fail("--data", "/a \n\xff", "", "", ErrorKind::BadData);
  const auto outcome = parse_outcome(serialise(error));
  ASSERT_TRUE(outcome && !*outcome);
  EXPECT_EQ(outcome->error().setting, error.setting);
  EXPECT_EQ(outcome->error().value, error.value);
  EXPECT_EQ(outcome->error().reason, "");
  EXPECT_EQ(outcome->error().action, "");
  EXPECT_EQ(outcome->error().kind, ErrorKind::BadData);
}

TEST(OutcomeText, ANulInsideOfAFieldDoesNotShiftTheOthers) {
  const std::string value("a\0b", 3);
  const auto outcome = parse_outcome(serialise(fail("key", value, "is odd", "another")));
  ASSERT_TRUE(outcome && !*outcome);
  EXPECT_EQ(outcome->error().value, "a?b");
  EXPECT_EQ(outcome->error().action, "another");
}

TEST(OutcomeText, RejectsMalformedText) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"64"sv, "x\0a\0b\0c\0d"sv, "64\0a\0b\0c"sv, "64\0a\0b\0c\0d\0e"sv}) {
    EXPECT_FALSE(parse_outcome(text)) << text;
  }
}

}  // namespace
}  // namespace rollcall
