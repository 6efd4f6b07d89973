#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// A range of tiles of a grid, in both directions from the first to before the end.
struct TileRange {
  int first_column = 0;
  int end_column = 0;
  int first_row = 0;
  int end_row = 0;

  [[nodiscard]] int columns() const { return end_column - first_column; }
  [[nodiscard]] int rows() const { return end_row - first_row; }
};

/// The positions of a repacked JPEG's tiles, in the picture and in the file.
struct TileGrid {
  ImageSize size = {};          ///< size of the picture
  int coded_width = 0;          ///< the width in the file's header: that of `size`, or padded to whole tiles
  int tile_width = 0;           ///< in pixels
  int tile_height = 0;          ///< in pixels: that of an MCU
  int tile_mcus = 0;            ///< number of MCUs in a tile, which is one row of them
  int columns = 0;              ///< number of tiles in each direction
  int rows = 0;                 //
  std::size_t frame_at = 0;     ///< offset of the frame header's content (SOF)
  std::size_t interval_at = 0;  ///< offset of the restart interval (DRI)
  bool can_be_halved = false;   ///< whether no sampling factor is above 2: a crop of the halved picture is then exact
  std::vector<std::size_t> at;  ///< offset of each tile's data, row by row, then of the file's end

  [[nodiscard]] std::size_t header_bytes() const { return at.front(); }

  /// Returns a tile's data without the marker that ends it.
  [[nodiscard]] std::span<const std::byte> data_of(int row, int column, std::span<const std::byte> file) const {
    const auto index =
        static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
    return file.subspan(at[index], at[index + 1] - at[index] - 2);
  }

  /// Returns the tiles that influence a box of the picture, which is decoded at 1 / `reduction` of its size.
  [[nodiscard]] TileRange tiles_for(const Box& box, int reduction) const;

  /// Returns the size that a JPEG of only these tiles must have in its header, and the width of its part of the
  /// picture.
  [[nodiscard]] ImageSize coded_size(const TileRange& range) const;
  [[nodiscard]] int picture_width(const TileRange& range) const;
};

/// Reads the header of a repacked file into `grid`, whose memory is reused, and checks everything that the other
/// functions rely on. Errors: BadData: the file is not as repack() writes it, or the tiling belongs to another file.
[[nodiscard]] Result<void> read_tile_grid(std::span<const std::byte> file, const Tiling& tiling, TileGrid& grid);

/// Returns a JPEG made of some tiles of a repacked one, without any re-encoding: every tile begins with a restart,
/// which resets the prediction of DC coefficients, so tiles are independent. It is in `memory`; empty if a tile's data
/// holds a marker, which is damage, or if out of memory.
[[nodiscard]] std::span<const std::byte> splice(std::span<const std::byte> file, const TileGrid& grid,
                                                const TileRange& range, ReusableBuffer& memory);

/// Returns the header of that JPEG without restarts and without tiles, for an entropy decoder that knows where they
/// are.
[[nodiscard]] std::span<const std::byte> splice_header(std::span<const std::byte> file, const TileGrid& grid,
                                                       const TileRange& range, ReusableBuffer& memory);

/// Returns whether a tile's data is free of markers: every 0xff is followed by a stuffed 0.
[[nodiscard]] bool has_no_marker(std::span<const std::byte> data);

/// Copies a tile's data to `out` without the stuffed zeros and returns the end of what it wrote, at most as many bytes.
/// Returns null if the data holds a marker.
[[nodiscard]] std::uint8_t* unstuff(std::span<const std::byte> data, std::uint8_t* out);

}  // namespace rollcall::data
