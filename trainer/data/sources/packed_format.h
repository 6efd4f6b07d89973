#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/storage/file.h"

/// The names and numbers of the packed format. docs/reference/dataset_format.md explains them.
namespace rollcall::data::packed_schema {

inline constexpr const char* kFormat = "rollcall-images";
inline constexpr int kMajorVersion = 1;  ///< readers refuse newer major versions
inline constexpr int kMinorVersion = 1;  ///< readers ignore additions of newer minor versions

/// Returns the version as files store it.
inline std::string version() { return std::to_string(kMajorVersion) + "." + std::to_string(kMinorVersion); }

// Attributes of the root group "/".
inline constexpr const char* kFormatAttribute = "format";
inline constexpr const char* kVersionAttribute = "format_version";
inline constexpr const char* kWriterAttribute = "writer";
inline constexpr const char* kCreatedAttribute = "created";
inline constexpr const char* kCompleteAttribute = "complete";
inline constexpr const char* kInputAttribute = "input_crc32c";

/// Attribute of every data set except kData.
inline constexpr const char* kCrcAttribute = "crc32c";

inline constexpr const char* kData = "/data";
inline constexpr const char* kOffset = "/offset";
inline constexpr const char* kLength = "/length";
inline constexpr const char* kTileCount = "/tile_count";
inline constexpr const char* kLabel = "/label";
inline constexpr const char* kCrc = "/crc32c";
inline constexpr const char* kWidth = "/width";
inline constexpr const char* kHeight = "/height";
inline constexpr const char* kOrientation = "/orientation";
inline constexpr const char* kNameOffset = "/name_offset";
inline constexpr const char* kNameData = "/name_data";
inline constexpr const char* kClassNames = "/class_names";

/// The offset of /data in files that rollcall writes: pictures can be written before their number is known. Readers
/// read the offset from the file.
inline constexpr std::uint64_t kDataStart = 4096;
/// The minimum length of /data, filled with zeros: HDF5 aligns only large data sets to kDataStart.
inline constexpr std::uint64_t kLeastDataBytes = std::uint64_t{64} << 10U;

/// Bytes of one tile length after a repacked JPEG.
inline constexpr std::uint64_t kTileLengthBytes = 2;

}  // namespace rollcall::data::packed_schema

namespace rollcall::data {

/// One sample of a packed file: a checked row of its tables.
struct PackedEntry {
  std::uint64_t offset = 0;      ///< offset of the encoded picture in /data
  std::uint32_t length = 0;      ///< size of the encoded picture in bytes
  std::uint32_t tile_count = 0;  ///< number of tile lengths after it, 2 bytes each; 0: not tiled
  std::int32_t label = 0;
  std::uint32_t crc32c = 0;  ///< checksum of the picture and its tile lengths
  std::uint32_t width = 0;   ///< the picture's true size
  std::uint32_t height = 0;
  std::uint8_t orientation = 1;  ///< EXIF orientation, 1 ... 8

  /// Returns the bytes of the picture and its tile lengths.
  [[nodiscard]] std::uint64_t stored_bytes() const {
    return length + std::uint64_t{tile_count} * packed_schema::kTileLengthBytes;
  }
};

/// The tables as stored in the file: little-endian numbers, one per sample.
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

/// Joins the tables and checks every value: each sample must be inside the `data_bytes` of /data, its label below
/// `classes`, and its size possible for a picture. Pure; accepts any bytes. Errors (BadData), without the file's name,
/// which the caller adds: tables of different lengths, a value out of range.
[[nodiscard]] Result<std::vector<PackedEntry>> join_packed_tables(const PackedTables& tables, std::uint64_t data_bytes,
                                                                  std::size_t classes);

/// Copies the tile lengths after a picture into `lengths`, which only grows, and returns the part that they fill. Pure.
/// Error (BadData, without a name): their sum is larger than the picture.
[[nodiscard]] Result<std::span<const std::uint16_t>> unpack_tile_lengths(const PackedEntry& entry,
                                                                         std::span<const std::byte> stored,
                                                                         std::vector<std::uint16_t>& lengths);

/// Returns the Error for an unusable packed file. `value` names the file, or is empty if the caller adds the name.
[[nodiscard]] Error damaged_packed_file(std::string value, std::string reason);

/// The location of a contiguous, one-dimensional HDF5 data set, which is completely inside the file.
struct DataSetLocation {
  std::uint64_t start = 0;  ///< offset of the first byte in the file
  std::uint64_t elements = 0;
  std::uint64_t element_bytes = 0;
  std::optional<std::uint32_t> crc32c;  ///< checksum of all its bytes; unset if the file has none

  [[nodiscard]] std::uint64_t bytes() const { return elements * element_bytes; }
};

/// The content of a packed file's HDF5 structures. All further reading uses only pread(2).
struct PackedLayout {
  std::string format_version;
  std::string writer;
  std::string created;
  std::optional<std::uint32_t>
      input_crc32c;  ///< checksum of the writer's input and options; unset if the file has none
  DataSetLocation data;
  DataSetLocation offset;
  DataSetLocation length;
  DataSetLocation tile_count;
  DataSetLocation label;
  DataSetLocation crc32c;
  DataSetLocation width;
  DataSetLocation height;
  DataSetLocation orientation;
  DataSetLocation name_offset;
  DataSetLocation name_data;
  DataSetLocation class_names;  ///< its elements are strings of a fixed length
};

/// Reads the structures of a packed file without the HDF5 library; `path` names the file in messages. Checks the types
/// and layouts, and that every data set is inside the file's `file_bytes`. Errors: BadData: not an HDF5 file,
/// truncated, another format, or incomplete; Mismatch: a newer major version.
[[nodiscard]] Result<PackedLayout> read_packed_layout(const storage::File& file, const std::string& path,
                                                      std::uint64_t file_bytes);

}  // namespace rollcall::data
