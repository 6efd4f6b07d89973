#pragma once

#include <cstdint>
#include <string>

/// Names and numbers of the packed format, once. docs/dataset_format.md explains them.
namespace rollcall::data::packed_schema {

inline constexpr const char* kFormat = "rollcall-images";
inline constexpr int kMajorVersion = 1;  ///< readers refuse a newer one
inline constexpr int kMinorVersion = 1;  ///< readers ignore what they do not know

/// Files of an older minor version may hold repacked pictures that were filled up where chroma is interpolated.
inline constexpr int kExactEdgesSince = 1;

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
