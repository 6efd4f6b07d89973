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
namespace {

// A block reads at most 64 symbols of 31 bits and what refill() takes in advance; tiles are checked after each.
constexpr std::size_t kSlack = 512;

/// From the place in a block's zigzag order to the place in its rows. Runs may point up to 15 beyond the end of a
/// damaged block, and its last symbol one less than 16 beyond that: they all go to the last place, as in libjpeg.
constexpr std::array<std::uint8_t, 160> natural_order() {
  constexpr std::array<std::uint8_t, 64> kOrder{0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                                12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                                35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                                58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};
  std::array<std::uint8_t, 160> order{};
  order.fill(63);
  std::copy(kOrder.begin(), kOrder.end(), order.begin());
  return order;
}

constexpr std::array kNaturalOrder = natural_order();

// A refill gives 56 bits.
constexpr int kSymbolsOfARefill = 56 / HuffmanTable::kLookupBits;

/// The bits of a tile.
struct BitStream {
  std::uint64_t bits = 0;  ///< the next ones, from the top
  int valid = 0;           ///< how many of them there are
  const std::uint8_t* next = nullptr;

  /// At least 56 bits afterwards. Reads 8 bytes.
  void refill() {
    std::uint64_t bytes;
    std::memcpy(&bytes, next, sizeof bytes);
    bits |= __builtin_bswap64(bytes) >> valid;
    next += (63 - valid) >> 3;
    valid |= 56;
  }
  void skip(int count) {
    bits <<= count;
    valid -= count;
  }
};

}  // namespace

/// A tile while it is decoded.
struct TileEntropyDecoder::Lane {
  BitStream stream;
  std::int16_t* block = nullptr;                 ///< the next one's 64 coefficients, which are zero
  std::array<int, MAX_COMPONENTS> last_dc = {};  ///< of each component
  const std::uint8_t* end = nullptr;
  bool is_damaged = false;

  /// Takes the next symbol. The stream must hold a look-up's bits; it holds them after a longer one too.
  CodedSymbol take(const HuffmanTable& table) {
    CodedSymbol symbol = table.lookup(stream.bits);
    if (symbol.bits == 0) [[unlikely]] {
      stream.refill();
      symbol = table.search(stream.bits, symbol);
      is_damaged |= symbol.bits == 0;
      stream.skip(symbol.bits);
      stream.refill();
      return symbol;
    }
    stream.skip(symbol.bits);
    return symbol;
  }

  /// A block's first symbol, with a refill of its own.
  void decode_dc(const Block& kind) {
    stream.refill();
    last_dc[kind.component] += take(*kind.dc).value;
    block[0] = static_cast<std::int16_t>(last_dc[kind.component]);
  }

  /// After a refill, kSymbolsOfARefill of them: one coefficient with the zeros before it; `place` is in zigzag order.
  void decode_ac(const HuffmanTable& table, unsigned& place) {
    const CodedSymbol symbol = take(table);
    place += symbol.advance;
    block[kNaturalOrder[place - 1]] = symbol.value;
  }

  /// decode_ac(), and whether that ended the block.
  bool ends_with_next(const HuffmanTable& table, unsigned& place) {
    decode_ac(table, place);
    return place >= DCTSIZE2;
  }

  /// The coefficients from `place` to the block's end.
  void decode_rest(const HuffmanTable& table, unsigned& place) {
    static_assert(kSymbolsOfARefill == 5);
    while (place < DCTSIZE2) {
      stream.refill();
      if (ends_with_next(table, place) || ends_with_next(table, place) || ends_with_next(table, place) ||
          ends_with_next(table, place)) {
        return;
      }
      decode_ac(table, place);
    }
  }

  /// Both lanes' next coefficients, and whether one of them ended its block.
  static bool one_ends_with_next(Lane& a, unsigned& place_a, Lane& b, unsigned& place_b, const HuffmanTable& table) {
    a.decode_ac(table, place_a);
    b.decode_ac(table, place_b);
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
    if (stream.next > end + sizeof(std::uint64_t)) [[unlikely]] {
      stream.next = end;
      is_damaged = true;
    }
  }

  /// Whether the data ends within the byte of the last code, filled up with ones.
  [[nodiscard]] bool ends_properly() const {
    const std::ptrdiff_t left = (end - stream.next) * 8 + stream.valid;
    return left >= 0 && left < 8 && stream.bits >> (64 - 8) >> (8 - left) == (1U << left) - 1;
  }
};

bool TileEntropyDecoder::read_tiles(std::span<const std::byte> file, const TileGrid& grid, const TileRange& range) {
  tile_columns_ = range.columns();
  tile_rows_ = range.rows();
  tile_mcus_ = grid.tile_mcus;
  tiles_.clear();
  std::size_t bytes = kSlack;
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
    std::memset(out, 0, kSlack);
  }
  return out != nullptr;
}

void TileEntropyDecoder::describe_blocks(jpeg_decompress_struct& decompressor) {
  std::array<bool, NUM_HUFF_TBLS> has_dc{};
  std::array<bool, NUM_HUFF_TBLS> has_ac{};
  mcu_blocks_ = decompressor.blocks_in_MCU;
  for (int i = 0; i < mcu_blocks_; ++i) {
    const int component = decompressor.MCU_membership[i];
    const jpeg_component_info& info = *decompressor.cur_comp_info[component];
    const auto dc = static_cast<std::size_t>(info.dc_tbl_no);
    const auto ac = static_cast<std::size_t>(info.ac_tbl_no);
    if (!std::exchange(has_dc[dc], true)) {
      dc_tables_[dc].build(*decompressor.dc_huff_tbl_ptrs[dc], HuffmanTable::Kind::Dc);
    }
    if (!std::exchange(has_ac[ac], true)) {
      ac_tables_[ac].build(*decompressor.ac_huff_tbl_ptrs[ac], HuffmanTable::Kind::Ac);
    }
    blocks_[static_cast<std::size_t>(i)] = {static_cast<std::size_t>(component), &dc_tables_[dc], &ac_tables_[ac]};
  }
}

void TileEntropyDecoder::attach(jpeg_decompress_struct& decompressor, int needed_mcus) {
  describe_blocks(decompressor);
  row_mcus_ = static_cast<int>(decompressor.MCUs_per_row);
  needed_mcus_ = std::min(needed_mcus, row_mcus_);
  next_row_ = 0;
  next_mcu_ = 0;
  decoded_row_ = -1;
  found_damage_ = false;

  const std::size_t bytes =
      static_cast<std::size_t>(tile_columns_ * tile_mcus_ * mcu_blocks_) * DCTSIZE2 * sizeof(std::int16_t);
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
        self.coefficients_ + static_cast<std::ptrdiff_t>(self.next_mcu_) * self.mcu_blocks_ * DCTSIZE2;
    for (int i = 0; i < self.mcu_blocks_; ++i, block += DCTSIZE2) {
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
  lane.block = coefficients_ + static_cast<std::ptrdiff_t>(column) * tile_mcus_ * mcu_blocks_ * DCTSIZE2;
  return lane;
}

void TileEntropyDecoder::decode_mcus(Lane& lane, int count) const {
  for (int mcu = 0; mcu < count; ++mcu) {
    for (int i = 0; i < mcu_blocks_; ++i) {
      const Block& kind = blocks_[static_cast<std::size_t>(i)];
      unsigned place = 1;
      lane.decode_dc(kind);
      lane.decode_rest(*kind.ac, place);
      lane.next_block();
    }
  }
}

void TileEntropyDecoder::decode_mcus(Lane& first, Lane& second, int count) const {
  Lane a = first;  // in registers
  Lane b = second;
  for (int mcu = 0; mcu < count; ++mcu) {
    for (int i = 0; i < mcu_blocks_; ++i) {
      const Block& kind = blocks_[static_cast<std::size_t>(i)];
      unsigned place_a = 1;
      unsigned place_b = 1;
      a.decode_dc(kind);
      b.decode_dc(kind);
      Lane::decode_together(a, place_a, b, place_b, *kind.ac);
      a.decode_rest(*kind.ac, place_a);
      b.decode_rest(*kind.ac, place_b);
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
