#include "trainer/data/jpeg/entropy/huffman_table.h"

#include <algorithm>

namespace rollcall::data {
namespace {

/// The parts of a symbol: zeros to skip, and the number of value bits after the code.
struct RunAndSize {
  int run = 0;
  int size = 0;
  bool ends_block = false;
};

RunAndSize take_apart(std::uint8_t symbol, HuffmanTable::Kind kind) {
  constexpr int kSixteenZeros = 15;  // a run without a value; every other run without one ends the block
  RunAndSize parts{.run = symbol >> 4, .size = symbol & 15};
  if (kind == HuffmanTable::Kind::Dc) {
    parts.run = 0;
  } else {
    parts.ends_block = parts.size == 0 && parts.run != kSixteenZeros;
  }
  return parts;
}

CodedSymbol end_of_block(int code_length) {
  return {static_cast<std::uint8_t>(code_length), CodedSymbol::kEndOfBlock, 0};
}

/// Returns the symbols that are completely in the first kLookupBits of a stream that is zero after them.
CodedRun run_at(std::uint64_t stream, const HuffmanTable& table) {
  CodedRun run;
  for (;;) {
    const CodedSymbol symbol = table.lookup(stream);
    const bool ends_block = symbol.advance >= CodedSymbol::kEndOfBlock;
    const int advance = run.advance + (ends_block ? CodedRun::kEndsBlock : symbol.advance);
    if (symbol.bits == 0 || run.bits + symbol.bits > SkipTable::kLookupBits ||
        (!ends_block && advance >= CodedRun::kUnknown)) {
      return run.bits == 0 ? CodedRun{0, CodedRun::kUnknown} : run;
    }
    run.bits = static_cast<std::uint8_t>(run.bits + symbol.bits);
    run.advance = static_cast<std::uint8_t>(advance);
    if (ends_block) {
      return run;
    }
    stream <<= symbol.bits;
  }
}

}  // namespace

void HuffmanTable::enter(int code, int length, std::uint8_t symbol) {
  const RunAndSize parts = take_apart(symbol, kind_);
  const int value_bits = parts.ends_block ? 0 : parts.size;
  const int unused_bits = kLookupBits - length - value_bits;
  if (code >= 1 << length) {
    return;
  }
  CodedSymbol* entry = entries_.data() + (static_cast<std::size_t>(code) << (kLookupBits - length));
  if (unused_bits < 0) {  // only the code fits, not its value: see with_value()
    const CodedSymbol named{0, static_cast<std::uint8_t>(length),
                            static_cast<std::int16_t>(parts.run << 4 | parts.size)};
    std::fill_n(entry, std::size_t{1} << (kLookupBits - length), named);
    return;
  }
  if (parts.ends_block) {
    std::fill_n(entry, 1U << unused_bits, end_of_block(length));
    return;
  }
  for (int value = 0; value < 1 << value_bits; ++value) {
    entry = std::fill_n(entry, 1U << unused_bits, coded(length, parts.run, parts.size, value));
  }
}

void HuffmanTable::build(const JHUFF_TBL& table, Kind kind) {
  if (generation_ > 0 && kind == kind_ &&
      std::equal(code_counts_.begin(), code_counts_.end(), std::begin(table.bits)) &&
      std::equal(symbols_.begin(), symbols_.end(), std::begin(table.huffval))) {
    return;
  }
  ++generation_;
  kind_ = kind;
  std::copy(std::begin(table.bits), std::end(table.bits), code_counts_.begin());
  entries_.fill({});
  std::copy(std::begin(table.huffval), std::end(table.huffval), symbols_.begin());
  int code = 0;
  std::size_t place = 0;
  for (int length = 1; length <= kLongestCode; ++length) {
    const auto index = static_cast<std::size_t>(length);
    symbol_offset_[index] = static_cast<int>(place) - code;
    for (int i = 0; i < table.bits[length] && place < symbols_.size(); ++i, ++code, ++place) {
      if (length <= kLookupBits) {
        enter(code, length, symbols_[place]);
      }
    }
    largest_code_[index] = table.bits[length] > 0 ? code - 1 : -1;
    code *= 2;
  }
}

CodedSymbol HuffmanTable::search_code(std::uint64_t stream) const {
  for (int length = 1; length <= kLongestCode; ++length) {
    const auto index = static_cast<std::size_t>(length);
    const int code = static_cast<int>(stream >> (64 - length));
    if (code <= largest_code_[index]) {
      const auto place = static_cast<std::size_t>(code + symbol_offset_[index]) % symbols_.size();
      const RunAndSize parts = take_apart(symbols_[place], kind_);
      if (parts.ends_block) {
        return end_of_block(length);
      }
      const int bits = parts.size == 0 ? 0 : static_cast<int>(stream << length >> (64 - parts.size));
      return coded(length, parts.run, parts.size, bits);
    }
  }
  return end_of_block(0);
}

void SkipTable::build(const HuffmanTable& table) {
  if (generation_ == table.generation()) {
    return;
  }
  generation_ = table.generation();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i] = run_at(static_cast<std::uint64_t>(i) << (64 - kLookupBits), table);
  }
}

}  // namespace rollcall::data
