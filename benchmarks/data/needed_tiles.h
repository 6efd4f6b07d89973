#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "trainer/data/jpeg/entropy/coded_blocks.h"
#include "trainer/data/jpeg/repack.h"
#include "trainer/data/jpeg/tiles.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// The tiles that a crop needs, ready to be decoded, two rows of them at a time as the decoder of
/// make_tile_entropy_decoder() does it.
class NeededTiles {
 public:
  void prepare(const Repacked& repacked, const Box& crop) {
    const std::span<const std::byte> file = repacked.jpeg;
    if (!read_tile_grid(file, repacked.tiling(), grid_)) {
      std::abort();
    }
    const TileRange range = grid_.tiles_for(crop, 1);
    describe_mcu(splice_header(file, grid_, range, header_));
    batch_ = static_cast<std::size_t>(2 * range.columns());
    const int blocks = grid_.tile_mcus * mcu_->block_count;
    const std::size_t coefficients = static_cast<std::size_t>(blocks) * DCTSIZE2;
    auto* const memory =
        reinterpret_cast<std::int16_t*>(coefficients_.at_least(batch_ * coefficients * sizeof(std::int16_t)));
    std::uint8_t* out = unstuffed_.at_least(file.size() + kCodedSlack);
    tiles_.clear();
    for (int row = range.first_row; row < range.end_row; ++row) {
      for (int column = range.first_column; column < range.end_column; ++column) {
        std::uint8_t* const begin = out;
        out = unstuff(grid_.data_of(row, column, file), out);
        tiles_.push_back({begin, out, memory + tiles_.size() % batch_ * coefficients, blocks, true});
      }
    }
  }

  [[nodiscard]] bool decode() const {
    bool sound = true;
    for (std::size_t first = 0; first < tiles_.size(); first += batch_) {
      sound &= decode_tiles(std::span(tiles_).subspan(first, std::min(batch_, tiles_.size() - first)), *mcu_);
    }
    return sound;
  }

 private:
  void describe_mcu(std::span<const std::byte> header) {
    jpeg_decompress_struct libjpeg{};
    jpeg_error_mgr errors{};
    libjpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&libjpeg);
    jpeg_mem_src(&libjpeg, reinterpret_cast<const unsigned char*>(header.data()), header.size());
    jpeg_read_header(&libjpeg, TRUE);
    jpeg_start_decompress(&libjpeg);
    mcu_->describe(libjpeg);
    jpeg_destroy_decompress(&libjpeg);
  }

  TileGrid grid_;
  ReusableBuffer header_;
  ReusableBuffer coefficients_;
  ReusableBuffer unstuffed_;
  std::unique_ptr<CodedMcu> mcu_ = std::make_unique<CodedMcu>();
  std::vector<CodedTile> tiles_;
  std::size_t batch_ = 0;
};

}  // namespace rollcall::data
