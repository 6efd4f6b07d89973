#include "runtime/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace rollcall {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Text, IntegerIsReadOnlyAsAWhole) {
  EXPECT_EQ(parse_integer<int>("-12"), -12);
  EXPECT_EQ(parse_integer<std::uint16_t>("65535"), 65535);
  for (const char* text : {"", " 1", "1 ", "1x", "+1", "0x1", "1.0"}) {
    EXPECT_FALSE(parse_integer<int>(text)) << text;
  }
}

TEST(Text, IntegerThatDoesNotFitIsRefused) {
  EXPECT_FALSE(parse_integer<std::uint16_t>("65536"));
  EXPECT_FALSE(parse_integer<std::uint16_t>("-1"));
  EXPECT_FALSE(parse_integer<std::int64_t>("9223372036854775808"));
}

TEST(Text, SplitKeepsEmptyPartsButNothingHasNoPart) {
  EXPECT_THAT(split("a,b", ','), ElementsAre("a", "b"));
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("a,", ','), ElementsAre("a", ""));
  EXPECT_THAT(split(",", ','), ElementsAre("", ""));
  EXPECT_THAT(split("", ','), IsEmpty());
}

TEST(Text, TrimRemovesBlanksAtBothEndsOnly) {
  EXPECT_EQ(trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

TEST(Text, NearestFindsATypingError) {
  const std::vector<std::string> known{"port.range", "host.template", "epochs"};
  EXPECT_EQ(nearest("prot.range", known), "port.range");
  EXPECT_EQ(nearest("epoch", known), "epochs");
  EXPECT_EQ(nearest("hosttemplate", known), "host.template");
  EXPECT_EQ(nearest("evn", {"exec", "env"}), "env");
}

TEST(Text, NearestStaysSilentWhereNothingIsNear) {
  EXPECT_FALSE(nearest("momentum", {"port.range", "epochs"}));
  EXPECT_FALSE(nearest("x", {}));
}

TEST(Text, FirstOfEquallyNearCandidatesWins) { EXPECT_EQ(nearest("bat", {"cat", "rat"}), "cat"); }

}  // namespace
}  // namespace rollcall
