#include "runtime/elastic/messages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rollcall::elastic {
namespace {

TEST(Messages, WorldOfThousandsOfNodesIsCompact) {
  std::vector<Node> nodes;
  for (std::uint32_t i = 0; i < 3000; ++i) {
    nodes.push_back({fmt::format("node{:05d}", i), fmt::format("10.1.{}.{}", i / 250, i % 250), 4, "default",
                     static_cast<std::uint16_t>(32768 + i * 7919 % 28000)});
  }
  const Order order{.kind = Order::Kind::World, .generation = {.number = 3, .world = nodes}};
  const std::string text = to_text(order);
  EXPECT_LT(text.size(), nodes.size() * 12);
  const std::optional<Order> read = parse_order(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, Order::Kind::World);
  EXPECT_EQ(read->generation.world, Nodes(nodes));
  for (const std::size_t end : {std::size_t{0}, std::size_t{1}, text.size() / 2, text.size() - 1}) {
    EXPECT_FALSE(parse_order(text.substr(0, end))) << end;
  }
}

TEST(Messages, RejectsAMessageThatExpandsAboveTheLimit) {
  const auto packed = [](std::size_t spaces) {
    const std::string text = R"({"order":6,"beat":7,"settled":0)" + std::string(spaces, ' ') + "}";
    uLongf size = compressBound(text.size());
    std::string small(size, '\0');
    compress(reinterpret_cast<Bytef*>(small.data()), &size, reinterpret_cast<const Bytef*>(text.data()), text.size());
    return small.substr(0, size);
  };
  ASSERT_TRUE(parse_order(packed(std::size_t{1} << 22)));
  EXPECT_FALSE(parse_order(packed(std::size_t{1} << 24)));
}

TEST(Messages, BeatMustBeANonNegativeInteger) {
  const auto report = [](const std::string& beat) {
    return parse_report(R"({"report":99,"generation":1,"beat":)" + beat + "}");
  };
  const auto order = [](const std::string& beat) {
    return parse_order(R"({"order":6,"settled":0,"beat":)" + beat + "}");
  };
  EXPECT_TRUE(report("9223372036854775807") && order("9223372036854775807"));
  for (const char* const beat : {"1e300", "-1e300", "1.0", "-1", "18446744073709551615", "true", "null"}) {
    EXPECT_FALSE(report(beat)) << beat;
    EXPECT_FALSE(order(beat)) << beat;
  }
}

TEST(Messages, RejectsACompressedMessageWithTooManyValues) {
  std::string text = R"({"order":6,"beat":7,"settled":0,"more":[0)";
  for (int i = 0; i < (1 << 20); ++i) {
    text += ",0";
  }
  text += "]}";
  uLongf size = compressBound(text.size());
  std::string small(size, '\0');
  compress(reinterpret_cast<Bytef*>(small.data()), &size, reinterpret_cast<const Bytef*>(text.data()), text.size());
  small.resize(size);
  EXPECT_LT(small.size(), std::size_t{1} << 13);
  EXPECT_FALSE(parse_order(small));
  EXPECT_FALSE(parse_report(text));
}

TEST(Messages, RejectsAddressesWithShellCharacters) {
  const auto is_read = [](const Node& node) {
    Report report{.kind = Report::Kind::Join, .port = 4711};
    report.join_request = JoinRequest{"run", 1, 1, {}, node};
    return parse_report(to_text(report)).has_value();
  };
  EXPECT_TRUE(is_read({"jwb_01-i.cluster", "fe80::1%ib0", 1, "any role: $(x)"}));
  for (const char* const text : {"$(touch x)", "a b", "a\nb", "`x`", "a/b", "\xc3\xa4"}) {
    EXPECT_FALSE(is_read({"host", text, 1, "worker"})) << text;
  }
  EXPECT_FALSE(is_read({std::string(256, 'a'), "10.0.0.1", 1, "worker"}));
}

TEST(Messages, RejectsDeepOrWideNesting) {
  const auto with = [](const std::string& more) {
    return parse_order(R"({"order":6,"beat":7,"settled":0,"more":)" + more + "}");
  };
  EXPECT_TRUE(with(R"("[[[[[[[[[[[[[[[[[[[[[[\"[[[[[[[[[[[[")")) << "a text";
  EXPECT_TRUE(with("[[[[[[]]]]]]"));
  EXPECT_FALSE(with(std::string(20, '[') + std::string(20, ']')));
  std::string wide = "[[]";
  for (int i = 0; i < (1 << 20); ++i) {
    wide += ",[]";
  }
  EXPECT_FALSE(with(wide + "]"));
}

}  // namespace
}  // namespace rollcall::elastic
