#include "trainer/data/jpeg/entropy/coded_blocks.h"

#include <gtest/gtest.h>
#include <memory>
#include <random>

#include "tests/support/jpeg_kinds.h"
#include "trainer/data/jpeg/repack.h"
#include "trainer/data/jpeg/tiles.h"

namespace rollcall::data {
namespace {

/// The tiles of a rough picture, 3 x 3 of them with 4 MCUs of 6 blocks each.
class CodedTiles : public testing::Test {
 protected:
  static constexpr int kBlocks = 4 * 6;
  static constexpr std::size_t kTiles = 9;

  void SetUp() override {
    std::mt19937 random(3);
    const auto jpeg = test::make_jpeg(test::rough_pixels(192, 48, 3, random), 192, 48,
                                      {.factors = {{2, 2}, {1, 1}, {1, 1}}, .quality = 95});
    const auto repacked = repack(jpeg);
    TileGrid grid;
    ASSERT_TRUE(repacked && read_tile_grid(repacked->jpeg, repacked->tiling(), grid));
    describe_mcu(repacked->jpeg);
    for (int tile = 0; tile < static_cast<int>(kTiles); ++tile) {
      const auto data = grid.data_of(tile / 3, tile % 3, repacked->jpeg);
      std::vector<std::uint8_t> bytes(data.size() + kCodedSlack);
      bytes.resize(static_cast<std::size_t>(unstuff(data, bytes.data()) - bytes.data()));
      bytes_.push_back(bytes);
    }
  }

  void describe_mcu(std::span<const std::byte> file) {
    jpeg_decompress_struct libjpeg{};
    jpeg_error_mgr errors{};
    libjpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&libjpeg);
    jpeg_mem_src(&libjpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&libjpeg, TRUE);
    jpeg_start_decompress(&libjpeg);
    mcu_->describe(libjpeg);
    jpeg_destroy_decompress(&libjpeg);
  }

  struct Decoded {
    std::vector<std::int16_t> coefficients;
    bool sound = false;
    bool operator==(const Decoded&) const = default;
  };

  /// Tiles [first, first + count), the first `blocks` of each.
  Decoded decode(std::size_t first, std::size_t count, int blocks = kBlocks) {
    Decoded decoded{std::vector<std::int16_t>(count * kBlocks * DCTSIZE2)};
    std::vector<std::vector<std::uint8_t>> padded;
    std::vector<CodedTile> tiles;
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<std::uint8_t>& bytes = bytes_[first + i];
      padded.push_back(bytes);
      padded.back().resize(bytes.size() + kCodedSlack);
      tiles.push_back({padded.back().data(), padded.back().data() + bytes.size(),
                       decoded.coefficients.data() + i * kBlocks * DCTSIZE2, blocks, blocks == kBlocks});
    }
    decoded.sound = decode_tiles(tiles, *mcu_);
    return decoded;
  }

  /// decode(), one after the other.
  Decoded one_by_one(std::size_t count, int blocks = kBlocks) {
    Decoded all{{}, true};
    for (std::size_t i = 0; i < count; ++i) {
      const Decoded one = decode(i, 1, blocks);
      all.coefficients.insert(all.coefficients.end(), one.coefficients.begin(), one.coefficients.end());
      all.sound &= one.sound;
    }
    return all;
  }

  std::vector<std::vector<std::uint8_t>> bytes_;
  std::unique_ptr<CodedMcu> mcu_ = std::make_unique<CodedMcu>();
};

TEST_F(CodedTiles, DecodeTogetherAsOneByOne) {
  for (std::size_t count = 0; count <= kTiles; ++count) {
    const Decoded together = decode(0, count);
    EXPECT_TRUE(together.sound) << count;
    EXPECT_EQ(together, one_by_one(count)) << count;
  }
}

TEST_F(CodedTiles, DecodePartially) {
  for (const int blocks : {0, 6, 12}) {
    EXPECT_EQ(decode(0, kTiles, blocks), one_by_one(kTiles, blocks)) << blocks;
  }
}

TEST_F(CodedTiles, DetectDamageOfOneWithoutAffectingOthers) {
  const Decoded intact = decode(0, kTiles);
  for (std::size_t damaged = 0; damaged < kTiles; ++damaged) {
    const std::vector<std::uint8_t> before = bytes_[damaged];
    bytes_[damaged].resize(before.size() / 2);
    Decoded decoded = decode(0, kTiles);
    EXPECT_FALSE(decoded.sound) << damaged;
    const auto tile = static_cast<std::ptrdiff_t>(damaged * kBlocks * DCTSIZE2);
    std::copy_n(intact.coefficients.begin() + tile, kBlocks * DCTSIZE2, decoded.coefficients.begin() + tile);
    EXPECT_EQ(decoded.coefficients, intact.coefficients) << damaged;
    bytes_[damaged] = before;
  }
}

TEST_F(CodedTiles, RandomDataStaysWithinItsMemory) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    for (std::vector<std::uint8_t>& bytes : bytes_) {
      bytes.resize(random() % 200);
      std::ranges::generate(bytes, [&] { return static_cast<std::uint8_t>(round % 3 == 0 ? 0xff : random()); });
    }
    EXPECT_EQ(decode(0, kTiles), one_by_one(kTiles));
  }
}

}  // namespace
}  // namespace rollcall::data
