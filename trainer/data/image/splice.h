#pragma once

#include <cstddef>
#include <span>

#include "trainer/data/image/kept_memory.h"
#include "trainer/data/image/tile_grid.h"

namespace rollcall::data {

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
