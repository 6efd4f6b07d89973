#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::data {

/// Where a contiguous, one-dimensional data set lies in the file; wholly inside of it.
struct DataSetPlace {
  std::uint64_t start = 0;  ///< first byte, from the beginning of the file
  std::uint64_t elements = 0;
  std::uint64_t element_bytes = 0;
  std::optional<std::uint32_t> crc32c;  ///< of all its bytes, where it says so

  [[nodiscard]] std::uint64_t bytes() const { return elements * element_bytes; }
};

/// What the HDF5 structures of a packed file tell. With it, all further reading is done with pread(2).
struct PackedLayout {
  std::string format_version;
  int minor_version = 0;  ///< of format_version
  std::string writer;
  std::string created;
  std::optional<std::uint32_t> input_crc32c;  ///< of what the writer was asked to do
  DataSetPlace data;
  DataSetPlace offset;
  DataSetPlace length;
  DataSetPlace tile_count;
  DataSetPlace label;
  DataSetPlace crc32c;
  DataSetPlace width;
  DataSetPlace height;
  DataSetPlace orientation;
  DataSetPlace name_offset;
  DataSetPlace name_data;
  DataSetPlace class_names;  ///< elements are texts of a fixed length
};

/// Reads the structures of the packed file that the open descriptor belongs to; `path` names it in messages. Types and
/// layouts are checked, and that every data set lies inside the file's `file_bytes`.
/// Errors: BadData: no HDF5 file, cut, another format, never finished; Mismatch: a newer major version.
/// One thread at a time in the whole program, as HDF5's serial library asks.
[[nodiscard]] Result<PackedLayout> read_packed_layout(int descriptor, const std::string& path,
                                                      std::uint64_t file_bytes);

}  // namespace rollcall::data
