#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "trainer/data/image/coded_blocks.h"
#include "trainer/data/image/unroll.h"

namespace rollcall::data {

/// The place of a coefficient in its block's rows by its place in zigzag order plus one, for any byte: see Lane::state.
constexpr std::array<std::uint8_t, 256> places_in_rows() {
  std::array<std::uint8_t, 256> places{};
  places.fill(DCTSIZE2 - 1);
  for (std::size_t i = 0; i < DCTSIZE2; ++i) {
    places[i + 1] = kNaturalOrder[i];
  }
  return places;
}

inline constexpr std::array kPlaceInRows = places_in_rows();

/// Why a lane cannot go on: the table lacks the next symbol; the block is complete.
enum class Stop { None, Missed, BlockEnd };

/// Coded blocks while they are decoded: what the inner loop works with, and so little that the registers of a processor
/// hold three of them. Each step waits for the one before, so several lanes in turn take hardly longer than one.
struct Lane {
  std::uint64_t bits = 0;  ///< the next ones, from the top
  /// Lowest byte: 63 less the number of bits. Second byte: one more than the last coefficient's place in zigzag order.
  /// A symbol is added as the table has it, which counts in both; what its value does above does not matter.
  std::uint32_t state = 63;
  const std::uint8_t* next = nullptr;
  std::int16_t* block = nullptr;  ///< its 64 coefficients, which are zero
  const HuffmanTable* table = nullptr;

  static constexpr std::uint32_t kUsed = 0xff;
  static constexpr std::uint32_t kOnePlace = 0x100;
  static constexpr std::uint32_t kComplete = 0xc000;  ///< the place is 64 or more

  /// At least 56 bits afterwards. Reads 8 bytes.
  ROLLCALL_INLINE void refill() {
    std::uint64_t bytes;
    std::memcpy(&bytes, next, sizeof bytes);
    bits |= __builtin_bswap64(bytes) >> (~state & 63);
    next += (state & kUsed) >> 3;
    state &= ~0xf8U;
  }

  ROLLCALL_INLINE Stop put(std::uint32_t symbol) {
    bits <<= symbol & 63;
    state += symbol;
    block[kPlaceInRows[state >> 8 & 0xff]] = static_cast<std::int16_t>(symbol >> 16);
    return (state & kComplete) != 0 ? Stop::BlockEnd : Stop::None;
  }

  /// One symbol; after a refill, kSymbolsOfARefill of them.
  ROLLCALL_INLINE Stop step() {
    const std::uint32_t symbol = table->lookup(bits).packed();
    return (symbol & kUsed) != 0 ? put(symbol) : Stop::Missed;
  }

  /// A block's first coefficient, as the difference from the one before. After a refill.
  ROLLCALL_INLINE void begin_block(std::uint32_t symbol) {
    bits <<= symbol & 63;
    state = ((state + symbol) & kUsed) | kOnePlace;
  }

  /// Whether the data ends within the byte of the last code, filled up with ones.
  [[nodiscard]] bool ends_properly(const std::uint8_t* end) const {
    const std::ptrdiff_t left = (end - next) * 8 + 63 - static_cast<std::ptrdiff_t>(state & kUsed);
    return left >= 0 && left < 8 && bits >> (64 - 8) >> (8 - left) == (1U << left) - 1;
  }
};

}  // namespace rollcall::data
