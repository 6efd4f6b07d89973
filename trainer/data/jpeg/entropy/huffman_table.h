#pragma once

#include <array>
#include <cstdint>
#include <cstdio>

#include <jpeglib.h>

namespace rollcall::data {

/// What comes next in a stream of Huffman-coded coefficients: a code and the value bits behind it, looked up at once.
struct CodedSymbol {
  std::uint8_t bits = 0;  ///< of the code and its value together, at most 31; 0: not in the table
  std::uint8_t advance =
      0;  ///< coefficients that this fills, the skipped zeros and the value; kEndOfBlock or more ends
  std::int16_t value = 0;

  static constexpr std::uint8_t kEndOfBlock = 64;

  /// As one number: the bits in the lowest byte, the advance above it, the value in the upper half.
  [[nodiscard]] std::uint32_t packed() const {
    return bits | std::uint32_t{advance} << 8 | std::uint32_t{static_cast<std::uint16_t>(value)} << 16;
  }
};

/// A Huffman table of JPEG (ITU-T T.81, annexes C and F.2) for decoding run, length and value bits in one step.
class HuffmanTable {
 public:
  enum class Kind { Dc, Ac };

  static constexpr int kLookupBits = 11;  ///< the longest symbol that lookup() finds; more make tables that take longer

  /// From a table that libjpeg has checked. Does nothing where it is the same as last time: most files use the tables
  /// that the standard gives as examples.
  void build(const JHUFF_TBL& table, Kind kind);

  /// Changes whenever build() has done something.
  [[nodiscard]] unsigned generation() const { return generation_; }

  /// The symbol at the top of `stream`; `bits` is 0 where it is not among the short ones.
  [[nodiscard]] CodedSymbol lookup(std::uint64_t stream) const { return entries_[stream >> (64 - kLookupBits)]; }

  /// The same for any length, where lookup() gave `missed`, which has no bits. Where no code matches, `bits` is 0 and
  /// the block ends.
  [[nodiscard]] CodedSymbol search(std::uint64_t stream, CodedSymbol missed) const {
    return missed.advance > 0 ? with_value(stream, missed) : search_code(stream);
  }

 private:
  static constexpr int kLongestCode = 16;

  /// A run of zeros and a value of `size` bits behind a code, with T.81's EXTEND: the upper half of the bit patterns
  /// stands for itself, the lower half for negative values.
  static CodedSymbol coded(int code_length, int run, int size, int bits) {
    const int value = size == 0 || bits >= 1 << (size - 1) ? bits : bits - (1 << size) + 1;
    return {static_cast<std::uint8_t>(code_length + size), static_cast<std::uint8_t>(run + 1),
            static_cast<std::int16_t>(value)};
  }

  /// For an entry that names a code whose value did not fit: its length as the advance, run and size as the value.
  static CodedSymbol with_value(std::uint64_t stream, CodedSymbol code) {
    const int size = code.value & 15;  // at least 1, for a code alone would have fitted
    return coded(code.advance, code.value >> 4, size, static_cast<int>(stream << code.advance >> (64 - size)));
  }

  void enter(int code, int length, std::uint8_t symbol);
  [[nodiscard]] CodedSymbol search_code(std::uint64_t stream) const;

  std::array<CodedSymbol, 1U << kLookupBits> entries_;
  std::array<int, kLongestCode + 1> largest_code_;   ///< of each length; -1 where there is none
  std::array<int, kLongestCode + 1> symbol_offset_;  ///< from a code to its place in symbols_
  std::array<std::uint8_t, 256> symbols_;
  std::array<std::uint8_t, kLongestCode + 1> code_counts_ = {};  ///< of each length
  Kind kind_ = Kind::Dc;
  unsigned generation_ = 0;
};

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
