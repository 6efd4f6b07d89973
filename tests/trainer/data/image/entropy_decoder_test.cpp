#include "trainer/data/jpeg/entropy_decoder.h"

#include <gtest/gtest.h>
#include <random>

#include "trainer/data/jpeg/entropy/huffman_table.h"

namespace rollcall::data {
namespace {

/// Codes 0, 10, 110 and, of 16 bits, 1110000000000000; 1111... means nothing.
JHUFF_TBL small_table(std::array<std::uint8_t, 4> symbols) {
  JHUFF_TBL table{};
  table.bits[1] = 1;
  table.bits[2] = 1;
  table.bits[3] = 1;
  table.bits[16] = 1;
  std::copy(symbols.begin(), symbols.end(), std::begin(table.huffval));
  return table;
}

std::uint64_t stream_of(const std::string& bits) {
  std::uint64_t stream = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    stream |= (bits[i] == '1' ? std::uint64_t{1} : 0) << (63 - i);
  }
  return stream;
}

void expect_symbol(const CodedSymbol& symbol, int bits, int advance, int value) {
  EXPECT_EQ(symbol.bits, bits);
  EXPECT_EQ(symbol.advance, advance);
  EXPECT_EQ(symbol.value, value);
}

/// As the decoder asks: with what lookup() has found out.
CodedSymbol searched(const HuffmanTable& table, std::uint64_t stream) {
  return table.search(stream, table.lookup(stream));
}

TEST(HuffmanTable, LookupFindsCodeRunAndValueInOneStep) {
  HuffmanTable table;
  table.build(small_table({0x03, 0x21, 0x00, 0xf0}), HuffmanTable::Kind::Ac);
  expect_symbol(table.lookup(stream_of("0101")), 4, 1, 5);                   // no zeros, 3 bits 101
  expect_symbol(table.lookup(stream_of("0010")), 4, 1, -5);                  // 010: the lower half is negative
  expect_symbol(table.lookup(stream_of("101")), 3, 3, 1);                    // two zeros, then 1
  expect_symbol(table.lookup(stream_of("100")), 3, 3, -1);                   //
  expect_symbol(table.lookup(stream_of("110")), 3, 64, 0);                   // end of block
  expect_symbol(searched(table, stream_of("1110000000000000")), 16, 16, 0);  // sixteen zeros
  EXPECT_EQ(table.lookup(stream_of("1110000000000000")).bits, 0);            // too long for the table
  expect_symbol(searched(table, stream_of("1111111111111111")), 0, 64, 0);   // no code
}

TEST(HuffmanTable, DcSymbolsHoldOnlySizes) {
  HuffmanTable table;
  table.build(small_table({0, 11, 2, 15}), HuffmanTable::Kind::Dc);
  expect_symbol(table.lookup(stream_of("0")), 1, 1, 0);
  expect_symbol(searched(table, stream_of("1011111111111")), 13, 1, 2047);
  expect_symbol(table.lookup(stream_of("11010")), 5, 1, 2);
  expect_symbol(searched(table, stream_of("1110000000000000000000000000000")), 31, 1, -32767);
}

TEST(HuffmanTable, RunWithoutValueEndsTheBlockLikeLibjpeg) {
  HuffmanTable table;
  table.build(small_table({0x10, 0x70, 0xe0, 0xf0}), HuffmanTable::Kind::Ac);
  for (const char* bits : {"0", "10", "110"}) {
    EXPECT_EQ(table.lookup(stream_of(bits)).advance, CodedSymbol::kEndOfBlock);
  }
}

TEST(HuffmanTable, LookupAndSearchAgreeOnEveryStream) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    JHUFF_TBL random_table{};
    int room = 1;  // codes left, of the present length
    int codes = 0;
    for (int length = 1; length <= 16; ++length) {
      room *= 2;
      const int count = std::min<int>(static_cast<int>(random() % static_cast<unsigned>(room)), 256 - codes);
      random_table.bits[length] = static_cast<UINT8>(std::min(count, 255));
      room -= random_table.bits[length];
      codes += random_table.bits[length];
    }
    for (UINT8& symbol : random_table.huffval) {
      symbol = static_cast<UINT8>(random());
    }
    HuffmanTable table;
    table.build(random_table, HuffmanTable::Kind::Ac);
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t stream = random();
      const CodedSymbol fast = table.lookup(stream);
      const CodedSymbol slow = table.search(stream, {});  // from nothing
      if (fast.bits != 0) {
        expect_symbol(fast, slow.bits, slow.advance, slow.value);
      } else {
        expect_symbol(searched(table, stream), slow.bits, slow.advance, slow.value);
        EXPECT_TRUE(slow.bits == 0 || slow.bits > HuffmanTable::kLookupBits);
      }
    }
  }
}

TEST(OwnEntropyDecoder, WorksWithTheInstalledLibjpeg) { EXPECT_TRUE(own_entropy_decoder_works()); }

}  // namespace
}  // namespace rollcall::data
