#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data/image/coded_blocks.h"
#include "trainer/data/image/coded_tiles.h"
#include "trainer/data/image/jpeg_decompressor.h"
#include "trainer/data/image/kept_memory.h"
#include "trainer/data/image/tile_grid.h"

namespace rollcall::data {

/// Decodes the coefficients of a repacked JPEG's tiles in place of libjpeg, which goes on with them: dequantisation,
/// inverse DCT, upsampling and colour stay libjpeg's, so the pixels do too.
///
/// Faster than libjpeg because it knows where every tile begins: three are decoded at once, so that the processor works
/// on two while it waits for the third's table; rows and the ends of tiles that are not wanted are skipped; and a code
/// with its value costs one look-up. Tiles that do not end where their data ends are noticed, which libjpeg does not
/// do.
///
/// It takes the place of a function in a structure that libjpeg keeps to itself (jpegint.h); use it only where
/// own_entropy_decoder_works().
class TileEntropyDecoder final : public EntropyHook {
 public:
  /// Takes the data of some tiles, without the stuffed zeros. False where it holds a marker, which is damage, or where
  /// there is no memory left.
  [[nodiscard]] bool read_tiles(std::span<const std::byte> file, const TileGrid& grid, const TileRange& range);

  void attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) override;

  /// Whether the tiles decoded since attach() held something else than valid codes.
  [[nodiscard]] bool found_damage() const { return found_damage_; }

 private:
  static boolean decode_mcu(j_decompress_ptr decompressor, JBLOCKROW* blocks);
  void decode_rows(int first, int end);
  [[nodiscard]] std::int16_t* block_at(int row, int mcu) const;
  [[nodiscard]] int mcus_needed_of(int column) const;

  /// Rows of tiles that are decoded together, so that seldom a tile is left alone.
  static constexpr int kRowsAtOnce = 2;

  KeptMemory unstuffed_;
  std::vector<CodedTile> tiles_;  ///< row by row; where their coefficients go is known when they are decoded
  int tile_columns_ = 0;
  int tile_rows_ = 0;
  int tile_mcus_ = 0;

  CodedMcu mcu_;
  int row_mcus_ = 0;
  int needed_mcus_ = 0;

  KeptMemory row_memory_;
  std::int16_t* coefficients_ = nullptr;  ///< of the rows that were decoded together: [row][MCU][block][64]
  int first_decoded_row_ = 0;
  int next_row_ = 0;
  int next_mcu_ = 0;
  bool found_damage_ = false;
};

/// Whether TileEntropyDecoder and SequentialEntropyDecoder give libjpeg's pixels with the libjpeg that this program
/// runs with: tried out once, on pictures made for that, the first time it is asked. Thread-safe.
[[nodiscard]] bool own_entropy_decoder_works();

}  // namespace rollcall::data
