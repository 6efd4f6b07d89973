#pragma once

#include <array>
#include <cstdint>

#include "trainer/data/image/huffman_table.h"

namespace rollcall::data {

/// Several coded coefficients at once, for one who only wants to get past them.
struct CodedRun {
  std::uint8_t bits = 0;
  /// Coefficients that they fill, at most 63; with kEndsBlock where the last symbol is the end of a block; kUnknown
  /// where the first symbol is too long for the table.
  std::uint8_t advance = 0;

  static constexpr std::uint8_t kUnknown = 64;
  static constexpr std::uint8_t kEndsBlock = 128;
};

/// From the next bits to as many whole symbols of an AC table as they hold.
class SkipTable {
 public:
  static constexpr int kLookupBits = HuffmanTable::kLookupBits;

  /// Does nothing where the table has not changed since the last time; give it the same one each time.
  void build(const HuffmanTable& table);

  [[nodiscard]] CodedRun lookup(std::uint64_t stream) const { return entries_[stream >> (64 - kLookupBits)]; }

 private:
  std::array<CodedRun, 1U << kLookupBits> entries_;
  unsigned generation_ = 0;  ///< of the table
};

}  // namespace rollcall::data
