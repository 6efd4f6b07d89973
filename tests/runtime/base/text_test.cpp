#include "runtime/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace rollcall {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Text, ParseIntegerRejectsExtraCharacters) {
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

TEST(Text, SplitKeepsEmptyPartsAndReturnsNoneForEmptyText) {
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

TEST(Text, NearestPrefersTheShortestThatBeginsWithTheWord) {
  EXPECT_EQ(nearest("--bat", {"--data", "--batch-size-limit", "--batch-size"}), "--batch-size");
  EXPECT_EQ(nearest("--data", {"--date", "--dataset"}), "--dataset");
  EXPECT_EQ(nearest("--data", {"--dataset", "--data"}), "--data");
}

TEST(Text, NearestReturnsNothingWithoutASimilarCandidate) {
  EXPECT_FALSE(nearest("momentum", {"port.range", "epochs"}));
  EXPECT_FALSE(nearest("x", {}));
  for (const char* const word : {"", "--"}) {
    EXPECT_FALSE(nearest(word, {"--batch-size"})) << word;
  }
}

TEST(Text, PrintableReplacesControlCharacters) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f"), "a?[2Jb??");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "2Jb\xc2\x80\xc2\x9f"),
            "a?2Jb??")
      << "C1, as UTF-8: one control each";
  EXPECT_EQ(printable("a\x9b"
                      "2Jb\x80\x9f"),
            "a?2Jb??")
      << "C1, as terminals without UTF-8 read it";
}

TEST(Text, PrintableKeepsNamesInAnyAlphabet) {
  for (const char* text : {"J\u00fclich", "\u00a0\u00ff", "\u0400\u6f22\u5b57", "\U0001f600", "J\xfclich"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Text, PrintableReplacesC1BytesInInvalidUtf8) {
  EXPECT_EQ(printable("\xe0\x80\x9b["), "\xe0??[") << "longer than it need be";
  EXPECT_EQ(printable("\xf0\x80\x82\x9b"), "\xf0???") << "the same of four bytes";
  EXPECT_EQ(printable("\xed\xa0\x9b"), "\xed\xa0?") << "half of a UTF-16 pair";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\xf4???") << "beyond Unicode";
  EXPECT_EQ(printable("\xe6\x9b"), "\xe6?") << "cut off";
  EXPECT_EQ(printable("\xc2"), "\xc2");
}

TEST(Text, HostAndPortPutsIpv6AddressesInBrackets) {
  EXPECT_EQ(host_and_port("10.78.0.1", "20000"), "10.78.0.1:20000");
  EXPECT_EQ(host_and_port("fe80::1", "20000"), "[fe80::1]:20000");
}

TEST(Text, CountedSelectsSingularOrPlural) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0U, "rank"), "0 ranks");
  EXPECT_EQ(counted(std::size_t{2}, "rank"), "2 ranks");
  EXPECT_EQ(counted(1, "class", "classes"), "1 class");
  EXPECT_EQ(counted(3, "class", "classes"), "3 classes");
}

TEST(Text, FirstOfEquallyNearCandidatesWins) { EXPECT_EQ(nearest("bat", {"cat", "rat"}), "cat"); }

TEST(Printable, ReplacesBidirectionalControlCharacters) {
  EXPECT_EQ(printable("gpj.\u202eexe"), "gpj.?exe");
  EXPECT_EQ(printable("a\u2066b\u2069c\u200fd\u061ce\u2028f"), "a?b?c?d?e?f");
  EXPECT_EQ(printable("\u20ac\u2030\u2065\u0627"), "\u20ac\u2030\u2065\u0627")
      << "neighbours, and right-to-left letters";
}

}  // namespace
}  // namespace rollcall
