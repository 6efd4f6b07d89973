#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/sources/packed_format.h"

namespace rollcall::data {

/// The tables of a packed file that is being written, a column each.
class PackedColumns {
 public:
  /// `name`: the picture's path relative to the packed folder, any bytes but NUL.
  void add(const PackedEntry& entry, std::string_view name);

  std::vector<std::uint64_t> offset;
  std::vector<std::uint32_t> length;
  std::vector<std::uint32_t> tile_count;
  std::vector<std::int32_t> label;
  std::vector<std::uint32_t> crc32c;
  std::vector<std::uint32_t> width;
  std::vector<std::uint32_t> height;
  std::vector<std::uint8_t> orientation;
  std::vector<std::uint64_t> name_offset{0};  ///< one more than samples: where each name begins and ends
  std::vector<char> name_data;
};

/// All of a packed file but the pictures.
struct PackedContent {
  PackedColumns columns;
  std::vector<std::string> class_names;
  std::uint64_t data_bytes = 0;    ///< of all pictures and tile lengths
  std::string writer;              ///< "rollcall-pack 1.2.3"
  std::string created;             ///< ISO 8601 in UTC
  std::uint32_t input_crc32c = 0;  ///< of what was asked to be packed and how: the writer knows its own work again
};

/// Makes a packed file out of a file whose pictures lie from packed_schema::kDataStart on: writes the HDF5 structures
/// and tables around them, marked complete, and brings all to the storage device. So the pictures can be written before
/// anybody knows how many there will be. The same content and pictures give the same bytes.
///
/// HDF5 writes the structures into a sparse file beside it (`path` + ".tables"), with a hole where /data belongs;
/// everything around the hole is copied. Errors (InputOutput): disk full, quota. Needs HDF5 for itself, as open() does.
[[nodiscard]] Result<void> finish_packed_file(const std::string& path, const PackedContent& content);

}  // namespace rollcall::data
