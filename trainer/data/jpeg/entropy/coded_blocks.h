#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "trainer/data/jpeg/entropy/huffman_table.h"

// Shared by the entropy decoders: the bits, the symbols and the blocks of a JPEG's coded data.
namespace rollcall::data {

/// Readable bytes that must follow coded data. A block reads at most 64 symbols of 31 bits and what refill() reads in
/// advance; the position is checked after each block.
inline constexpr std::size_t kCodedSlack = 512;

/// Maps the zigzag index of a coefficient to its index in the rows of the block. In a damaged block, runs may point up
/// to 15 beyond the end, and its last symbol one less than 16 beyond that: all of these map to the last index, as in
/// libjpeg.
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

inline constexpr std::array kNaturalOrder = natural_order();

/// A reader of the bits of coded data without stuffed zeros.
struct BitStream {
  std::uint64_t bits = 0;  ///< the next bits, from the top
  int valid = 0;           ///< number of valid bits
  const std::uint8_t* next = nullptr;

  /// Refills to at least 56 bits. Reads 8 bytes.
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

/// Symbols that a refill of 56 bits is sure to hold.
inline constexpr int kSymbolsOfARefill = 56 / HuffmanTable::kLookupBits;

/// The blocks of an MCU and the tables of their codes.
struct CodedMcu {
  struct Block {
    std::size_t component = 0;
    const HuffmanTable* dc = nullptr;
    const HuffmanTable* ac = nullptr;
  };

  std::array<HuffmanTable, NUM_HUFF_TBLS> dc_tables;
  std::array<HuffmanTable, NUM_HUFF_TBLS> ac_tables;
  std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks;
  int block_count = 0;

  /// Reads the description of the scan that libjpeg has started, whose tables it has checked.
  void describe(const jpeg_decompress_struct& decompressor);
};

/// The state of decoding blocks one after another.
struct CodedBlocks {
  BitStream stream;
  std::array<std::uint32_t, MAX_COMPONENTS> last_dc =
      {};                             ///< last DC value of each component; damaged data may wrap it around
  const std::uint8_t* end = nullptr;  ///< end of the data; kCodedSlack bytes follow
  bool is_damaged = false;

  /// Takes the next symbol. The stream must hold the bits of a look-up, and holds them again after a longer symbol.
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

  /// Decodes a block's first coefficient, after a refill of its own.
  std::int16_t decode_dc(const CodedMcu::Block& kind) {
    stream.refill();
    std::uint32_t& dc = last_dc[kind.component];
    dc += static_cast<std::uint32_t>(take(*kind.dc).value);
    return static_cast<std::int16_t>(dc);
  }

  /// Decodes one coefficient and the zeros before it, up to kSymbolsOfARefill times after a refill; `place` is in
  /// zigzag order.
  void decode_ac(const HuffmanTable& table, std::int16_t* block, unsigned& place) {
    const CodedSymbol symbol = take(table);
    place += symbol.advance;
    block[kNaturalOrder[place - 1]] = symbol.value;
  }

  /// Calls decode_ac() and returns whether that ended the block.
  bool ends_with_next(const HuffmanTable& table, std::int16_t* block, unsigned& place) {
    decode_ac(table, block, place);
    return place >= DCTSIZE2;
  }

  /// Decodes the coefficients from `place` to the block's end.
  void decode_rest(const HuffmanTable& table, std::int16_t* block, unsigned& place) {
    static_assert(kSymbolsOfARefill == 5);
    while (place < DCTSIZE2) {
      stream.refill();
      if (ends_with_next(table, block, place) || ends_with_next(table, block, place) ||
          ends_with_next(table, block, place) || ends_with_next(table, block, place)) {
        return;
      }
      decode_ac(table, block, place);
    }
  }

  /// Called after each block: keeps the stream inside the data's memory.
  void stay_inside() {
    if (stream.next > end + sizeof(std::uint64_t)) [[unlikely]] {
      stream.next = end;
      is_damaged = true;
    }
  }

  /// Returns how many bits are left; negative if more were taken than the data has.
  [[nodiscard]] std::ptrdiff_t bits_left() const { return (end - stream.next) * 8 + stream.valid; }

  /// Returns whether the rest of the last code's byte is all ones, as at an end.
  [[nodiscard]] bool is_padded() const {
    const int padding = stream.valid % 8;
    return stream.bits >> (64 - 8) >> (8 - padding) == (1U << padding) - 1;
  }
};

/// A tile's coded data without stuffed zeros, and the memory of its coefficients.
struct CodedTile {
  const std::uint8_t* begin = nullptr;
  const std::uint8_t* end = nullptr;  ///< kCodedSlack readable bytes follow
  std::int16_t* blocks = nullptr;     ///< [block_count][64], initially zero
  int block_count = 0;                ///< number of the tile's first blocks to decode, whole MCUs; may be 0
  bool is_whole = false;              ///< whether these are all blocks of the tile, with which the data must end
};

/// Decodes the coefficients of several tiles at once. Returns whether all of them held only valid codes; if not, some
/// coefficients are undefined. Thread-safe.
[[nodiscard]] bool decode_tiles(std::span<const CodedTile> tiles, const CodedMcu& mcu);

}  // namespace rollcall::data
