#include "trainer/data/sources/packed_format.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "tests/trainer/data/packed/sample_file.h"

namespace rollcall::data {
namespace {

using testing::HasSubstr;

PackedTables tables_of(const PackedColumns& columns) {
  return {.offset = std::as_bytes(std::span(columns.offset)),
          .length = std::as_bytes(std::span(columns.length)),
          .tile_count = std::as_bytes(std::span(columns.tile_count)),
          .label = std::as_bytes(std::span(columns.label)),
          .crc32c = std::as_bytes(std::span(columns.crc32c)),
          .width = std::as_bytes(std::span(columns.width)),
          .height = std::as_bytes(std::span(columns.height)),
          .orientation = std::as_bytes(std::span(columns.orientation))};
}

std::string verdict(const std::function<void(PackedColumns&)>& change) {
  std::vector<std::byte> bytes;
  PackedContent content = test::content_of(test::three_samples(), bytes);
  change(content.columns);
  const auto entries = join_packed_tables(tables_of(content.columns), content.data_bytes, 2);
  return entries ? "" : entries.error().message();
}

TEST(PackedTables, AcceptsValidTables) {
  EXPECT_EQ(verdict([](PackedColumns&) {}), "");
}

TEST(PackedTables, RejectsEveryImpossibleValue) {
  constexpr auto kMost64 = std::numeric_limits<std::uint64_t>::max();
  constexpr auto kMost32 = std::numeric_limits<std::uint32_t>::max();
  const std::vector<std::pair<std::function<void(PackedColumns&)>, std::string>> changes{
      {[](PackedColumns& c) { c.offset[2] += 1; }, "sample 2: 3 bytes at 71007 lie outside of the data (71009 bytes)"},
      {[](PackedColumns& c) { c.offset[0] = kMost64; }, "sample 0"},
      {[](PackedColumns& c) { c.offset[0] = kMost64 - 999; }, "lie outside of the data"},
      {[](PackedColumns& c) { c.length[0] = kMost32; }, "lie outside of the data"},
      {[](PackedColumns& c) { c.tile_count[1] = kMost32; }, "lie outside of the data"},
      {[](PackedColumns& c) { c.label[1] = 2; }, "label 2 is not one of its 2 classes"},
      {[](PackedColumns& c) { c.label[1] = -1; }, "label -1 is not one of its 2 classes"},
      {[](PackedColumns& c) { c.width[0] = 0; }, "a picture cannot have 0 x 375 pixels"},
      {[](PackedColumns& c) { c.height[0] = 1U << 31; }, "pixels"},
      {[](PackedColumns& c) { c.height[1] = 65'536; }, "a picture cannot have 500 x 65536 pixels"},
      {[](PackedColumns& c) { c.orientation[2] = 9; }, "9 is not an EXIF orientation"},
      {[](PackedColumns& c) { c.orientation[2] = 0; }, "0 is not an EXIF orientation"},
      {[](PackedColumns& c) { c.label.pop_back(); }, "its tables have different lengths"},
      {[](PackedColumns& c) { c.offset.pop_back(); }, "its tables have different lengths"}};
  for (const auto& [change, reason] : changes) {
    EXPECT_THAT(verdict(change), HasSubstr(reason));
  }
}

TEST(PackedTables, RejectsTileLengthsThatDoNotFit) {
  const PackedEntry entry{.offset = 0, .length = 10, .tile_count = 2};
  std::vector<std::uint16_t> lengths;
  std::vector<std::byte> stored(14);
  stored[10] = std::byte{6};
  stored[12] = std::byte{4};
  const auto unpacked = unpack_tile_lengths(entry, stored, lengths);
  ASSERT_TRUE(unpacked);
  EXPECT_THAT(*unpacked, testing::ElementsAre(6, 4));
  stored[12] = std::byte{5};
  EXPECT_FALSE(unpack_tile_lengths(entry, stored, lengths));
  EXPECT_FALSE(unpack_tile_lengths(entry, std::span(stored).first(13), lengths));
}

}  // namespace
}  // namespace rollcall::data
