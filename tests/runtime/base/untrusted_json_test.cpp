#include "runtime/base/untrusted_json.h"

#include <gtest/gtest.h>

#include <string>

namespace rollcall {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    all += text;
  }
  return all;
}

TEST(UntrustedJson, ParsesValidJsonWithinTheLimits) {
  const auto parsed = parse_untrusted(R"({"a":[1,2,{"b":"[[[,,,\"]]"}],"c":null})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->at("a").at(2).at("b"), "[[[,,,\"]]");
  EXPECT_TRUE(parse_untrusted("7"));
  for (const char* const text : {"", "{", "]", "[1,]", "{\"a\":}", "\"", "\"\\", "[1] 2", "\xff"}) {
    EXPECT_FALSE(parse_untrusted(text)) << text;
  }
}

TEST(UntrustedJson, RejectsNestingAboveTheLimit) {
  const auto nested = [](int depth) { return repeated("[", depth) + repeated("]", depth); };
  EXPECT_TRUE(parse_untrusted(nested(16)));
  EXPECT_FALSE(parse_untrusted(nested(17)));
  EXPECT_FALSE(parse_untrusted(repeated("{\"a\":", 1 << 20)));
  EXPECT_TRUE(parse_untrusted("[" + repeated("[],", 100) + "[]]", {.depth = 2}));
}

TEST(UntrustedJson, RejectsMoreValuesThanTheLimit) {
  for (const std::string value : {"1", "[]", "{}", "\"\"", "null"}) {
    const std::string hundred = "[" + repeated(value + ",", 99) + value + "]";
    EXPECT_TRUE(parse_untrusted(hundred, {.values = 201})) << value;
    EXPECT_FALSE(parse_untrusted(hundred, {.values = 100})) << value;
    EXPECT_FALSE(parse_untrusted("[" + repeated(value + ",", 1 << 19) + value + "]")) << value;
  }
  EXPECT_FALSE(parse_untrusted(R"({"a":1,"b":2,"c":3})", {.values = 3}));
}

}  // namespace
}  // namespace rollcall
