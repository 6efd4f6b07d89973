#include <algorithm>
#include <cstring>
#include <vector>

#include "trainer/data/jpeg/entropy/coded_blocks.h"
#include "trainer/data/jpeg/entropy_decoder.h"
#include "trainer/data/jpeg/errors.h"
#include "trainer/data/jpeg/tiles.h"
#include "trainer/data/pixels.h"

extern "C" {
#define JPEG_INTERNALS  // declares boolean's counterpart, which jpegint.h needs
#include <jpegint.h>
}

namespace rollcall::data {
namespace {

/// Replaces a function in an internal structure of libjpeg (jpegint.h).
class OwnTileDecoder final : public TileEntropyDecoder {
 public:
  [[nodiscard]] bool read_tiles(std::span<const std::byte> file, const TileGrid& grid, const TileRange& range) override;
  void attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) override;
  void read_to_end(jpeg_decompress_struct& /*decompressor*/) override {}  // libjpeg's source has the header alone
  [[nodiscard]] bool is_attached() const override { return true; }
  [[nodiscard]] bool found_damage() const override { return found_damage_; }

 private:
  static boolean decode_mcu(j_decompress_ptr decompressor, JBLOCKROW* blocks);
  void decode_rows(int first, int end);
  [[nodiscard]] std::int16_t* block_at(int row, int mcu) const;
  [[nodiscard]] int mcus_needed_of(int column) const;

  /// Rows of tiles that are decoded together, so that rarely a tile is decoded alone.
  static constexpr int kRowsAtOnce = 2;

  ReusableBuffer unstuffed_;
  std::vector<CodedTile> tiles_;  ///< row by row; where their coefficients go is known when they are decoded
  int tile_columns_ = 0;
  int tile_rows_ = 0;
  int tile_mcus_ = 0;

  CodedMcu mcu_;
  int row_mcus_ = 0;
  int needed_mcus_ = 0;

  ReusableBuffer row_memory_;
  std::int16_t* coefficients_ = nullptr;  ///< of the rows that were decoded together: [row][MCU][block][64]
  int first_decoded_row_ = 0;
  int next_row_ = 0;
  int next_mcu_ = 0;
  bool found_damage_ = false;
};

bool OwnTileDecoder::read_tiles(std::span<const std::byte> file, const TileGrid& grid, const TileRange& range) {
  tile_columns_ = range.columns();
  tile_rows_ = range.rows();
  tile_mcus_ = grid.tile_mcus;
  tiles_.clear();
  std::size_t bytes = kCodedSlack;
  for (int row = range.first_row; row < range.end_row; ++row) {
    for (int column = range.first_column; column < range.end_column; ++column) {
      bytes += grid.data_of(row, column, file).size();
    }
  }
  std::uint8_t* out = unstuffed_.at_least(bytes);
  for (int row = range.first_row; out != nullptr && row < range.end_row; ++row) {
    for (int column = range.first_column; column < range.end_column; ++column) {
      std::uint8_t* const begin = out;
      out = unstuff(grid.data_of(row, column, file), out);
      if (out == nullptr) {
        return false;
      }
      tiles_.push_back({.begin = begin, .end = out});
    }
  }
  if (out != nullptr) {
    std::memset(out, 0, kCodedSlack);
  }
  return out != nullptr;
}

void OwnTileDecoder::attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) {
  mcu_.describe(decompressor);
  row_mcus_ = static_cast<int>(decompressor.MCUs_per_row);
  needed_mcus_ = std::min(needed_mcus.end, row_mcus_);
  next_row_ = 0;
  next_mcu_ = 0;
  first_decoded_row_ = -kRowsAtOnce;
  found_damage_ = false;

  const std::size_t bytes = static_cast<std::size_t>(kRowsAtOnce * tile_columns_ * tile_mcus_ * mcu_.block_count) *
                            DCTSIZE2 * sizeof(std::int16_t);
  coefficients_ = reinterpret_cast<std::int16_t*>(row_memory_.at_least(bytes));
  if (coefficients_ == nullptr || row_mcus_ > tile_columns_ * tile_mcus_) {
    JpegErrors::raise(reinterpret_cast<j_common_ptr>(&decompressor), "No place for a row of tiles");
  }
  std::memset(coefficients_, 0, bytes);
  decompressor.client_data = this;
  decompressor.entropy->decode_mcu = decode_mcu;
}

boolean OwnTileDecoder::decode_mcu(j_decompress_ptr decompressor, JBLOCKROW* blocks) {
  OwnTileDecoder& self = *static_cast<OwnTileDecoder*>(decompressor->client_data);
  if (blocks != nullptr && self.next_row_ < self.tile_rows_) {  // null for a skipped row
    if (self.next_row_ >= self.first_decoded_row_ + kRowsAtOnce) {
      self.first_decoded_row_ = self.next_row_;
      self.decode_rows(self.next_row_, std::min(self.next_row_ + kRowsAtOnce, self.tile_rows_));
    }
    // libjpeg clears the MCU's blocks that blocks[0] points to before it asks for the next MCU. It has cleared them for
    // this one; now it clears these, so that a later row finds its memory zeroed.
    std::int16_t* block = self.block_at(self.next_row_ - self.first_decoded_row_, self.next_mcu_);
    for (int i = 0; i < self.mcu_.block_count; ++i, block += DCTSIZE2) {
      blocks[i] = reinterpret_cast<JBLOCKROW>(block);
    }
  }
  if (++self.next_mcu_ == self.row_mcus_) {
    self.next_mcu_ = 0;
    ++self.next_row_;
  }
  return TRUE;
}

std::int16_t* OwnTileDecoder::block_at(int row, int mcu) const {
  const std::ptrdiff_t mcus = std::ptrdiff_t{row} * tile_columns_ * tile_mcus_ + mcu;
  return coefficients_ + mcus * mcu_.block_count * DCTSIZE2;
}

int OwnTileDecoder::mcus_needed_of(int column) const {
  return std::clamp(needed_mcus_ - column * tile_mcus_, 0, tile_mcus_);
}

void OwnTileDecoder::decode_rows(int first, int end) {
  const auto columns = static_cast<std::size_t>(tile_columns_);
  const std::span<CodedTile> tiles = std::span(tiles_).subspan(static_cast<std::size_t>(first) * columns,
                                                               static_cast<std::size_t>(end - first) * columns);
  for (int i = 0; i < static_cast<int>(tiles.size()); ++i) {
    const int column = i % tile_columns_;
    const int mcus = mcus_needed_of(column);
    CodedTile& tile = tiles[static_cast<std::size_t>(i)];
    tile.blocks = block_at(i / tile_columns_, column * tile_mcus_);
    tile.block_count = mcus * mcu_.block_count;
    tile.is_whole = mcus == tile_mcus_;
  }
  found_damage_ |= !decode_tiles(tiles, mcu_);
}

}  // namespace

std::unique_ptr<TileEntropyDecoder> make_tile_entropy_decoder() { return std::make_unique<OwnTileDecoder>(); }

}  // namespace rollcall::data
