#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// Tiles of a grid: from the first to before the end, in both directions.
struct TileRange {
  int first_column = 0;
  int end_column = 0;
  int first_row = 0;
  int end_row = 0;

  [[nodiscard]] int columns() const { return end_column - first_column; }
  [[nodiscard]] int rows() const { return end_row - first_row; }
};

/// Where the tiles of a repacked JPEG lie, in the picture and in the file.
struct TileGrid {
  ImageSize size = {};          ///< of the picture
  int coded_width = 0;          ///< as the file's header has it: `size`, or filled up to whole tiles
  int tile_width = 0;           ///< in pixels
  int tile_height = 0;          ///< in pixels: an MCU's
  int tile_mcus = 0;            ///< in the one row of MCUs that a tile is
  int columns = 0;              ///< of tiles
  int rows = 0;                 //
  std::size_t frame_at = 0;     ///< offset of the frame header's content (SOF)
  std::size_t interval_at = 0;  ///< offset of the restart interval (DRI)
  bool can_be_halved = false;   ///< no sampling factor above 2: a crop of the halved picture is exact
  std::vector<std::size_t> at;  ///< offset of each tile's data, row by row, and of the file's end

  [[nodiscard]] std::size_t header_bytes() const { return at.front(); }

  /// A tile's data without the marker that ends it.
  [[nodiscard]] std::span<const std::byte> data_of(int row, int column, std::span<const std::byte> file) const {
    const auto index =
        static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
    return file.subspan(at[index], at[index + 1] - at[index] - 2);
  }

  /// The tiles that have influence on a box of the picture, which is decoded at 1 / `reduction` of its size.
  [[nodiscard]] TileRange tiles_for(const Box& box, int reduction) const;

  /// What a JPEG made of these tiles alone has to name as its size, and how wide its part of the picture is.
  [[nodiscard]] ImageSize coded_size(const TileRange& range) const;
  [[nodiscard]] int picture_width(const TileRange& range) const;
};

/// Reads the header of a repacked file into `grid`, whose memory is reused, and checks everything about it that the
/// other functions rely on. Errors: BadData: the file is not as repack() writes it, or not the one that the tiling
/// belongs to.
[[nodiscard]] Result<void> read_tile_grid(std::span<const std::byte> file, const Tiling& tiling, TileGrid& grid);

/// A JPEG made of some tiles of a repacked one, without coding anything anew: every tile begins with a restart, which
/// resets the prediction of DC coefficients, so it means the same in other company. Lies in `memory`; empty where a
/// tile's data holds a marker, which is damage, or where there is no memory left.
[[nodiscard]] std::span<const std::byte> splice(std::span<const std::byte> file, const TileGrid& grid,
                                                const TileRange& range, KeptMemory& memory);

/// The header of that JPEG without restarts, and no tile behind it: for an entropy decoder that knows where they are.
[[nodiscard]] std::span<const std::byte> splice_header(std::span<const std::byte> file, const TileGrid& grid,
                                                       const TileRange& range, KeptMemory& memory);

/// Whether a tile's data is free of markers: every 0xff is followed by a stuffed 0.
[[nodiscard]] bool has_no_marker(std::span<const std::byte> data);

/// Copies a tile's data to `out` without the stuffed zeros; gives the end of what it wrote, at most as many bytes. Null
/// where the data holds a marker.
[[nodiscard]] std::uint8_t* unstuff(std::span<const std::byte> data, std::uint8_t* out);

}  // namespace rollcall::data
