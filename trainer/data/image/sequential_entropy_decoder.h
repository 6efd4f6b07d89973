#pragma once

#include <array>

#include "trainer/data/image/coded_blocks.h"
#include "trainer/data/image/coded_window.h"
#include "trainer/data/image/jpeg_decompressor.h"
#include "trainer/data/image/skip_table.h"

namespace rollcall::data {

/// Decodes the coefficients of ordinary JPEGs in place of libjpeg, which goes on with them as it does with
/// TileEntropyDecoder's: one Huffman-coded sequential scan with all components, with or without restarts. Other files
/// it leaves to libjpeg.
///
/// Faster than libjpeg because a code with its value costs one look-up, and because of what a crop does not need it
/// only follows the codes, several with one look-up: rows above it and MCUs beside it.
///
/// Damage that libjpeg would warn of fails libjpeg's running call: data that ends too early, codes that mean nothing,
/// missing or wrong restarts, data left over before a restart. What is left over at the end is libjpeg's to find.
///
/// Use it only where own_entropy_decoder_works().
class SequentialEntropyDecoder final : public EntropyHook {
 public:
  void attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) override;

  /// Whether the last attach() was for a file of the kind that this decodes.
  [[nodiscard]] bool is_attached() const { return is_attached_; }

 private:
  static boolean decode_mcu(j_decompress_ptr decompressor, JBLOCKROW* blocks);
  void build_skip_tables(const jpeg_decompress_struct& decompressor);
  void begin_interval(jpeg_decompress_struct& decompressor);
  void decode(JBLOCKROW* blocks);
  void skip();
  void skip_rest(const CodedMcu::Block& kind, const SkipTable& skips);
  void hand_back(jpeg_decompress_struct& decompressor);

  CodedMcu mcu_;
  std::array<SkipTable, NUM_HUFF_TBLS> skip_tables_;
  std::array<const SkipTable*, D_MAX_BLOCKS_IN_MCU> block_skips_ = {};
  CodedWindow window_;
  CodedBlocks coded_;
  ColumnRange needed_;
  int row_mcus_ = 0;
  int column_ = 0;
  int mcus_left_ = 0;
  int mcus_to_restart_ = 0;
  unsigned next_restart_ = 0;
  bool is_attached_ = false;
};

}  // namespace rollcall::data
