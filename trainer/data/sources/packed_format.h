#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/storage/file.h"

/// Names and numbers of the packed format, once. docs/reference/dataset_format.md explains them.
namespace rollcall::data::packed_schema {

inline constexpr const char* kFormat = "rollcall-images";
inline constexpr int kMajorVersion = 1;  ///< readers refuse a newer one
inline constexpr int kMinorVersion = 1;  ///< readers ignore what they do not know

/// As files tell it.
inline std::string version() { return std::to_string(kMajorVersion) + "." + std::to_string(kMinorVersion); }

// Attributes of "/".
inline constexpr const char* kFormatAttribute = "format";
inline constexpr const char* kVersionAttribute = "format_version";
inline constexpr const char* kWriterAttribute = "writer";
inline constexpr const char* kCreatedAttribute = "created";
inline constexpr const char* kCompleteAttribute = "complete";
inline constexpr const char* kInputAttribute = "input_crc32c";

/// Attribute of every data set but kData.
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

/// Where our writer lets /data begin in the file, so that it can write before it knows how much there will be. Readers
/// ask the file.
inline constexpr std::uint64_t kDataStart = 4096;
/// /data is at least so long, filled with zeros: HDF5 places only large data sets at a multiple of kDataStart.
inline constexpr std::uint64_t kLeastDataBytes = std::uint64_t{64} << 10U;

/// Bytes of one tile's length behind a repacked JPEG.
inline constexpr std::uint64_t kTileLengthBytes = 2;

}  // namespace rollcall::data::packed_schema

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

/// Reads the structures of the packed file `file`, without the HDF5 library; `path` names it in messages. Types and
/// layouts are checked, and that every data set lies inside the file's `file_bytes`.
/// Errors: BadData: no HDF5 file, cut, another format, never finished; Mismatch: a newer major version.
[[nodiscard]] Result<PackedLayout> read_packed_layout(const storage::File& file, const std::string& path,
                                                      std::uint64_t file_bytes);

}  // namespace rollcall::data
