#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/sources/packed_format.h"

namespace rollcall::data {

/// The tables of a packed file that is being written, one member per column.
class PackedColumns {
 public:
  /// Adds a row. `name` is the picture's path relative to the packed folder: any bytes but NUL.
  void add(const PackedEntry& entry, std::string_view name);

  std::vector<std::uint64_t> offset;
  std::vector<std::uint32_t> length;
  std::vector<std::uint32_t> tile_count;
  std::vector<std::int32_t> label;
  std::vector<std::uint32_t> crc32c;
  std::vector<std::uint32_t> width;
  std::vector<std::uint32_t> height;
  std::vector<std::uint8_t> orientation;
  std::vector<std::uint64_t> name_offset{0};  ///< where each name begins and ends; one element more than samples
  std::vector<char> name_data;
};

/// The content of a packed file except the pictures.
struct PackedContent {
  PackedColumns columns;
  std::vector<std::string> class_names;
  std::uint64_t data_bytes = 0;  ///< bytes of all pictures and tile lengths
  std::string writer;            ///< "rollcall-pack 1.2.3"
  std::string created;           ///< time of creation: ISO 8601 in UTC
  std::uint32_t input_crc32c =
      0;  ///< checksum of the input and the options, by which the writer recognises its own work
};

/// Turns a file whose pictures begin at packed_schema::kDataStart into a packed file: writes the HDF5 structures and
/// tables around them, marks it complete, and flushes everything to the device. So the pictures can be written before
/// their number is known. The same content and pictures give the same bytes.
///
/// HDF5 writes the structures into a sparse file (`path` + ".tables") with a hole for /data; everything around the hole
/// is copied. Errors (InputOutput): disk full, quota. Needs exclusive use of HDF5, as open() does.
[[nodiscard]] Result<void> finish_packed_file(const std::string& path, const PackedContent& content);

}  // namespace rollcall::data
