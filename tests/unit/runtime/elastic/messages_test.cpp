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

TEST(Messages, AWorldOfThousandsIsToldInFewBytes) {
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

TEST(Messages, AFewBytesDoNotBecomeMoreThanAWorldHas) {
  const auto packed = [](std::size_t spaces) {
    const std::string text =
        R"({"protocol":"rollcall run 5","order":6,"beat":7,"settled":0)" + std::string(spaces, ' ') + "}";
    uLongf size = compressBound(text.size());
    std::string small(size, '\0');
    compress(reinterpret_cast<Bytef*>(small.data()), &size, reinterpret_cast<const Bytef*>(text.data()), text.size());
    return small.substr(0, size);
  };
  ASSERT_TRUE(parse_order(packed(std::size_t{1} << 24)));
  EXPECT_FALSE(parse_order(packed(std::size_t{1} << 26)));
}

}  // namespace
}  // namespace rollcall::elastic
