#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/packed/schema.h"

namespace rollcall::data {

/// A sample of a packed file, as its tables tell it; checked.
struct PackedEntry {
  std::uint64_t offset = 0;      ///< of the encoded picture in /data
  std::uint32_t length = 0;      ///< bytes of the encoded picture
  std::uint32_t tile_count = 0;  ///< lengths that follow it, 2 bytes each; 0: not tiled
  std::int32_t label = 0;
  std::uint32_t crc32c = 0;  ///< of picture and tile lengths
  std::uint32_t width = 0;   ///< the true size
  std::uint32_t height = 0;
  std::uint8_t orientation = 1;  ///< EXIF's 1 ... 8

  /// Bytes of the picture and its tile lengths.
  [[nodiscard]] std::uint64_t stored_bytes() const {
    return length + std::uint64_t{tile_count} * packed_schema::kTileLengthBytes;
  }
};

/// The tables as they lie in the file: little-endian numbers, one for each sample.
struct PackedTables {
  std::span<const std::byte> offset;       ///< uint64
  std::span<const std::byte> length;       ///< uint32
  std::span<const std::byte> tile_count;   ///< uint32
  std::span<const std::byte> label;        ///< int32
  std::span<const std::byte> crc32c;       ///< uint32
  std::span<const std::byte> width;        ///< uint32
  std::span<const std::byte> height;       ///< uint32
  std::span<const std::byte> orientation;  ///< uint8
};

/// Joins the tables and checks every value: each sample lies inside /data's `data_bytes`, its label below `classes`,
/// its size is one that a picture can have. Pure; takes any bytes.
/// Errors (BadData), without the file's name, which the caller knows: tables of different lengths, a value out of
/// range.
[[nodiscard]] Result<std::vector<PackedEntry>> join_packed_tables(const PackedTables& tables, std::uint64_t data_bytes,
                                                                  std::size_t classes);

/// Takes the tile lengths from the bytes behind a picture into `lengths`, which only grows, and gives the part that
/// they fill. Pure. Error (BadData, without a name): together they are longer than the picture.
[[nodiscard]] Result<std::span<const std::uint16_t>> unpack_tile_lengths(const PackedEntry& entry,
                                                                         std::span<const std::byte> stored,
                                                                         std::vector<std::uint16_t>& lengths);

/// The Error for a packed file that cannot be used; `value` names it, or is empty where the caller adds the name.
[[nodiscard]] Error damaged_packed_file(std::string value, std::string reason);

}  // namespace rollcall::data
