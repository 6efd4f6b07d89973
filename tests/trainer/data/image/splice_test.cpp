#include "trainer/data/jpeg/tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rollcall::data {
namespace {

using Stream = std::vector<std::uint8_t>;

/// What unstuff() makes of a tile's data; nothing where it refuses them.
std::optional<Stream> unstuffed(const Stream& data) {
  Stream out(data.size() + 1);
  const std::uint8_t* const end = unstuff(std::as_bytes(std::span(data)), out.data());
  if (end == nullptr) {
    return std::nullopt;
  }
  out.resize(static_cast<std::size_t>(end - out.data()));
  return out;
}

bool has_none(const Stream& data) { return has_no_marker(std::as_bytes(std::span(data))); }

TEST(TileData, WithoutAMarkerIsUnstuffed) {
  EXPECT_EQ(unstuffed({}), Stream{});
  EXPECT_EQ(unstuffed({0, 1, 2}), (Stream{0, 1, 2}));
  EXPECT_EQ(unstuffed({1, 0xff, 0, 2, 0, 0xff, 0, 0xff, 0}), (Stream{1, 0xff, 2, 0, 0xff, 0xff}));
  for (const Stream& data : {Stream{}, {0, 1, 2}, {1, 0xff, 0, 2, 0, 0xff, 0, 0xff, 0}}) {
    EXPECT_TRUE(has_none(data));
  }
}

// A marker between the beginning of a tile and its end marker is damage: what follows would belong to another tile.
TEST(TileData, WithAMarkerOrPartOfOneIsRejected) {
  for (const Stream& data :
       {Stream{0xff}, {1, 2, 0xff}, {0xff, 0xd0}, {1, 0xff, 0xd3, 2, 3}, {1, 0xff, 0, 0xff, 0xd9}, {0xff, 0xff, 0}}) {
    EXPECT_EQ(unstuffed(data), std::nullopt) << testing::PrintToString(data);
    EXPECT_FALSE(has_none(data)) << testing::PrintToString(data);
  }
}

}  // namespace
}  // namespace rollcall::data
