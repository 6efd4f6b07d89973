#pragma once

#include <array>
#include <cstdint>
#include <cstdio>

#include <jpeglib.h>

namespace rollcall::data {

/// The next code in a stream of Huffman-coded coefficients and the value bits after it, looked up together.
struct CodedSymbol {
  std::uint8_t bits = 0;  ///< bits of the code and its value together, at most 31; 0: not in the table
  std::uint8_t advance =
      0;  ///< coefficients that this fills, the skipped zeros and the value; kEndOfBlock or more ends
  std::int16_t value = 0;

  static constexpr std::uint8_t kEndOfBlock = 64;

  /// Returns the symbol as one number: the bits in the lowest byte, the advance above it, the value in the upper half.
  [[nodiscard]] std::uint32_t packed() const {
    return bits | std::uint32_t{advance} << 8 | std::uint32_t{static_cast<std::uint16_t>(value)} << 16;
  }
};

/// A Huffman table of JPEG (ITU-T T.81, annexes C and F.2) for decoding run, length and value bits in one step.
class HuffmanTable {
 public:
  enum class Kind { Dc, Ac };

  static constexpr int kLookupBits = 11;  ///< the longest symbol that lookup() finds; larger tables are slower

  /// Builds the table from one that libjpeg has checked. Does nothing if it is the same as last time: most files use
  /// the example tables of the standard.
  void build(const JHUFF_TBL& table, Kind kind);

  /// Returns a number that changes whenever build() changes the table.
  [[nodiscard]] unsigned generation() const { return generation_; }

  /// Returns the symbol at the top of `stream`; `bits` is 0 if it is not among the short ones.
  [[nodiscard]] CodedSymbol lookup(std::uint64_t stream) const { return entries_[stream >> (64 - kLookupBits)]; }

  /// Finds a symbol of any length after lookup() returned `missed`, which has no bits. If no code matches, `bits` is 0
  /// and the block ends.
  [[nodiscard]] CodedSymbol search(std::uint64_t stream, CodedSymbol missed) const {
    return missed.advance > 0 ? with_value(stream, missed) : search_code(stream);
  }

 private:
  static constexpr int kLongestCode = 16;

  /// Returns the symbol of a run of zeros and a value of `size` bits after a code, with T.81's EXTEND: the upper half
  /// of the bit patterns are positive values, the lower half negative ones.
  static CodedSymbol coded(int code_length, int run, int size, int bits) {
    const int value = size == 0 || bits >= 1 << (size - 1) ? bits : bits - (1 << size) + 1;
    return {static_cast<std::uint8_t>(code_length + size), static_cast<std::uint8_t>(run + 1),
            static_cast<std::int16_t>(value)};
  }

  /// Completes an entry whose value did not fit into the look-up: its advance is the code's length, its value the run
  /// and the size.
  static CodedSymbol with_value(std::uint64_t stream, CodedSymbol code) {
    const int size = code.value & 15;  // at least 1, for a code alone would have fitted
    return coded(code.advance, code.value >> 4, size, static_cast<int>(stream << code.advance >> (64 - size)));
  }

  void enter(int code, int length, std::uint8_t symbol);
  [[nodiscard]] CodedSymbol search_code(std::uint64_t stream) const;

  std::array<CodedSymbol, 1U << kLookupBits> entries_;
  std::array<int, kLongestCode + 1> largest_code_;   ///< the largest code of each length; -1 if there is none
  std::array<int, kLongestCode + 1> symbol_offset_;  ///< from a code to its index in symbols_
  std::array<std::uint8_t, 256> symbols_;
  std::array<std::uint8_t, kLongestCode + 1> code_counts_ = {};  ///< number of codes of each length
  Kind kind_ = Kind::Dc;
  unsigned generation_ = 0;
};

/// Several coded coefficients at once, for skipping over them.
struct CodedRun {
  std::uint8_t bits = 0;
  /// Coefficients that they fill, at most 63; plus kEndsBlock if the last symbol is the end of a block; kUnknown if the
  /// first symbol is too long for the table.
  std::uint8_t advance = 0;

  static constexpr std::uint8_t kUnknown = 64;
  static constexpr std::uint8_t kEndsBlock = 128;
};

/// Maps the next bits to as many complete symbols of an AC table as they hold.
class SkipTable {
 public:
  static constexpr int kLookupBits = HuffmanTable::kLookupBits;

  /// Does nothing if the table has not changed since the last call; always pass the same table.
  void build(const HuffmanTable& table);

  [[nodiscard]] CodedRun lookup(std::uint64_t stream) const { return entries_[stream >> (64 - kLookupBits)]; }

 private:
  std::array<CodedRun, 1U << kLookupBits> entries_;
  unsigned generation_ = 0;  ///< generation() of the table
};

}  // namespace rollcall::data
