#include "trainer/data/image/entropy_decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

extern "C" {
#define JPEG_INTERNALS  // declares boolean's counterpart, which jpegint.h needs
#include <jpegint.h>
}

#include "trainer/data/image/splice.h"

namespace rollcall::data {
/// A tile while it is decoded.
struct TileEntropyDecoder::Lane : CodedBlocks {
  std::int16_t* block = nullptr;  ///< the next one's 64 coefficients, which are zero

  /// Both lanes' next coefficients, and whether one of them ended its block.
  static bool one_ends_with_next(Lane& a, unsigned& place_a, Lane& b, unsigned& place_b, const HuffmanTable& table) {
    a.decode_ac(table, a.block, place_a);
    b.decode_ac(table, b.block, place_b);
    return place_a >= DCTSIZE2 || place_b >= DCTSIZE2;
  }

  /// The coefficients of a block in each of two tiles, until one of the blocks ends. While the processor waits for the
  /// one's table it works on the other. decode_dc() has left enough bits for four symbols.
  static void decode_together(Lane& a, unsigned& place_a, Lane& b, unsigned& place_b, const HuffmanTable& table) {
    static_assert(kSymbolsOfARefill == 5);
    for (;;) {
      if (one_ends_with_next(a, place_a, b, place_b, table) || one_ends_with_next(a, place_a, b, place_b, table) ||
          one_ends_with_next(a, place_a, b, place_b, table) || one_ends_with_next(a, place_a, b, place_b, table)) {
        return;
      }
      a.stream.refill();
      b.stream.refill();
      if (one_ends_with_next(a, place_a, b, place_b, table)) {
        return;
      }
    }
  }

  /// To the next block, without ever leaving the tile's memory.
  void next_block() {
    block += DCTSIZE2;
    stay_inside();
  }

  /// Whether the data ends within the byte of the last code, filled up with ones.
  [[nodiscard]] bool ends_properly() const {
    const std::ptrdiff_t left = bits_left();
    return left >= 0 && left < 8 && stream.bits >> (64 - 8) >> (8 - left) == (1U << left) - 1;
  }
};

bool TileEntropyDecoder::read_tiles(std::span<const std::byte> file, const TileGrid& grid, const TileRange& range) {
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
      tiles_.push_back({begin, out});
    }
  }
  if (out != nullptr) {
    std::memset(out, 0, kCodedSlack);
  }
  return out != nullptr;
}

void TileEntropyDecoder::attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) {
  mcu_.describe(decompressor);
  row_mcus_ = static_cast<int>(decompressor.MCUs_per_row);
  needed_mcus_ = std::min(needed_mcus.end, row_mcus_);
  next_row_ = 0;
  next_mcu_ = 0;
  decoded_row_ = -1;
  found_damage_ = false;

  const std::size_t bytes =
      static_cast<std::size_t>(tile_columns_ * tile_mcus_ * mcu_.block_count) * DCTSIZE2 * sizeof(std::int16_t);
  coefficients_ = reinterpret_cast<std::int16_t*>(row_memory_.at_least(bytes));
  if (coefficients_ == nullptr || row_mcus_ > tile_columns_ * tile_mcus_) {
    JpegErrors::raise(reinterpret_cast<j_common_ptr>(&decompressor), "No place for a row of tiles");
  }
  std::memset(coefficients_, 0, bytes);
  decompressor.client_data = this;
  decompressor.entropy->decode_mcu = decode_mcu;
}

boolean TileEntropyDecoder::decode_mcu(j_decompress_ptr decompressor, JBLOCKROW* blocks) {
  TileEntropyDecoder& self = *static_cast<TileEntropyDecoder*>(decompressor->client_data);
  if (blocks != nullptr && self.next_row_ < self.tile_rows_) {  // null: a row that is skipped
    if (std::exchange(self.decoded_row_, self.next_row_) != self.next_row_) {
      self.decode_row(self.next_row_);
    }
    // libjpeg clears the blocks that blocks[0] points to, an MCU's, before it asks for the next MCU. It had them
    // cleared for this one; now it clears these, and a row finds its memory zeroed.
    std::int16_t* block =
        self.coefficients_ + static_cast<std::ptrdiff_t>(self.next_mcu_) * self.mcu_.block_count * DCTSIZE2;
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

int TileEntropyDecoder::mcus_needed_of(int column) const {
  return std::clamp(needed_mcus_ - column * tile_mcus_, 0, tile_mcus_);
}

TileEntropyDecoder::Lane TileEntropyDecoder::lane_of(int row, int column) const {
  const TileData& data = tiles_[static_cast<std::size_t>(row * tile_columns_ + column)];
  Lane lane;
  lane.stream.next = data.begin;
  lane.end = data.end;
  lane.block = coefficients_ + static_cast<std::ptrdiff_t>(column) * tile_mcus_ * mcu_.block_count * DCTSIZE2;
  return lane;
}

void TileEntropyDecoder::decode_mcus(Lane& lane, int count) const {
  for (int mcu = 0; mcu < count; ++mcu) {
    for (int i = 0; i < mcu_.block_count; ++i) {
      const CodedMcu::Block& kind = mcu_.blocks[static_cast<std::size_t>(i)];
      unsigned place = 1;
      lane.block[0] = lane.decode_dc(kind);
      lane.decode_rest(*kind.ac, lane.block, place);
      lane.next_block();
    }
  }
}

void TileEntropyDecoder::decode_mcus(Lane& first, Lane& second, int count) const {
  Lane a = first;  // in registers
  Lane b = second;
  for (int mcu = 0; mcu < count; ++mcu) {
    for (int i = 0; i < mcu_.block_count; ++i) {
      const CodedMcu::Block& kind = mcu_.blocks[static_cast<std::size_t>(i)];
      unsigned place_a = 1;
      unsigned place_b = 1;
      a.block[0] = a.decode_dc(kind);
      b.block[0] = b.decode_dc(kind);
      Lane::decode_together(a, place_a, b, place_b, *kind.ac);
      a.decode_rest(*kind.ac, a.block, place_a);
      b.decode_rest(*kind.ac, b.block, place_b);
      a.next_block();
      b.next_block();
    }
  }
  first = a;
  second = b;
}

void TileEntropyDecoder::finish(const Lane& lane, int decoded_mcus) {
  found_damage_ |= lane.is_damaged || (decoded_mcus == tile_mcus_ && !lane.ends_properly());
}

void TileEntropyDecoder::decode_row(int row) {
  for (int column = 0; column < tile_columns_; column += 2) {
    Lane first = lane_of(row, column);
    const int first_mcus = mcus_needed_of(column);
    if (column + 1 == tile_columns_) {
      decode_mcus(first, first_mcus);
      finish(first, first_mcus);
      return;
    }
    Lane second = lane_of(row, column + 1);
    const int second_mcus = mcus_needed_of(column + 1);  // at most as many
    decode_mcus(first, second, second_mcus);
    decode_mcus(first, first_mcus - second_mcus);
    finish(first, first_mcus);
    finish(second, second_mcus);
  }
}

}  // namespace rollcall::data
