#include "trainer/data/sources/packed_format.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/storage/hdf5.h"

namespace rollcall::data {
namespace {

using storage::Handle;

Result<void> read_root(hid_t root, const std::string& path, PackedLayout& layout) {
  using storage::read_text_attribute;
  if (read_text_attribute(root, packed_schema::kFormatAttribute) != packed_schema::kFormat) {
    return fail("--data", path, fmt::format("is an HDF5 file, but not of format {}", packed_schema::kFormat),
                "a file that rollcall-pack wrote", ExitCode::BadData);
  }
  layout.format_version = read_text_attribute(root, packed_schema::kVersionAttribute).value_or("");
  const auto parts = split(layout.format_version, '.');
  const auto major = parts.empty() ? std::nullopt : parse_integer<int>(parts.front());
  if (!major) {
    return damaged_packed_file(path, "is damaged: it does not say its format version");
  }
  if (*major > packed_schema::kMajorVersion) {
    return fail("--data", path,
                fmt::format("has format version {}, and this program reads up to {}.x", layout.format_version,
                            packed_schema::kMajorVersion),
                "a newer rollcall", ExitCode::Mismatch);
  }
  layout.minor_version = parts.size() > 1 ? parse_integer<int>(parts[1]).value_or(0) : 0;
  if (storage::read_uint32_attribute(root, packed_schema::kCompleteAttribute) != 1U) {
    return damaged_packed_file(path, "was never finished");
  }
  layout.writer = read_text_attribute(root, packed_schema::kWriterAttribute).value_or("");
  layout.created = read_text_attribute(root, packed_schema::kCreatedAttribute).value_or("");
  layout.input_crc32c = storage::read_uint32_attribute(root, packed_schema::kInputAttribute);
  return {};
}

bool is_fixed_text(hid_t type) { return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0; }

bool is_contiguous_here(hid_t object) {
  const Handle properties(H5Dget_create_plist(object), H5Pclose);
  return properties && H5Pget_layout(properties.get()) == H5D_CONTIGUOUS &&
         H5Pget_external_count(properties.get()) == 0;
}

/// Shape and place of an opened data set, unchecked; nothing where it is not a contiguous row of elements.
std::optional<DataSetPlace> place_of(hid_t object, hid_t type) {
  const Handle space(H5Dget_space(object), H5Sclose);
  hsize_t elements = 0;
  if (!space || H5Sget_simple_extent_ndims(space.get()) != 1 ||
      H5Sget_simple_extent_dims(space.get(), &elements, nullptr) != 1 || !is_contiguous_here(object)) {
    return std::nullopt;
  }
  DataSetPlace place{.start = 0, .elements = elements, .element_bytes = H5Tget_size(type), .crc32c = {}};
  const haddr_t start = elements > 0 ? H5Dget_offset(object) : 0;
  if (start == HADDR_UNDEF) {
    return std::nullopt;
  }
  place.start = start;
  place.crc32c = storage::read_uint32_attribute(object, packed_schema::kCrcAttribute);
  return place;
}

bool lies_inside(const DataSetPlace& place, std::uint64_t file_bytes) {
  return place.element_bytes > 0 && place.start <= file_bytes &&
         place.elements <= (file_bytes - place.start) / place.element_bytes;
}

class LayoutReader {
 public:
  LayoutReader(hid_t file, const std::string& path, std::uint64_t file_bytes)
      : file_(file), path_(path), file_bytes_(file_bytes) {}

  /// `type`: which the elements must have; H5T_C_S1 stands for any text of a fixed length.
  [[nodiscard]] Result<void> read(const char* name, hid_t type, DataSetPlace& place) const {
    const bool linked = H5Lexists(file_, name, H5P_DEFAULT) > 0;
    const Handle object(linked ? H5Dopen2(file_, name, H5P_DEFAULT) : H5I_INVALID_HID, H5Dclose);
    const Handle stored(object ? H5Dget_type(object.get()) : H5I_INVALID_HID, H5Tclose);
    if (!stored) {
      return damaged_packed_file(path_, fmt::format("is damaged: {} cannot be opened", name));
    }
    const bool right = type == H5T_C_S1 ? is_fixed_text(stored.get()) : H5Tequal(stored.get(), type) > 0;
    const auto found = right ? place_of(object.get(), stored.get()) : std::nullopt;
    if (!found) {
      return damaged_packed_file(path_, fmt::format("is damaged: {} is not stored as it should be", name));
    }
    if (!lies_inside(*found, file_bytes_)) {
      return damaged_packed_file(path_, fmt::format("is damaged: {} does not lie inside the file", name));
    }
    place = *found;
    return {};
  }

 private:
  hid_t file_;
  const std::string& path_;
  std::uint64_t file_bytes_;
};

static_assert(std::endian::native == std::endian::little, "tables are read as they lie in the file");

constexpr std::uint32_t kMostJpegPixels = 65535;  // a side of a tiled picture, which is a JPEG

template <typename Number>
Number number_at(std::span<const std::byte> table, std::size_t index) {
  Number number{};
  std::memcpy(&number, table.data() + index * sizeof(Number), sizeof(Number));
  return number;
}

bool same_lengths(const PackedTables& tables, std::size_t samples) {
  const std::size_t bytes = samples * sizeof(std::uint32_t);
  return tables.offset.size() == samples * sizeof(std::uint64_t) && tables.length.size() == bytes &&
         tables.tile_count.size() == bytes && tables.label.size() == bytes && tables.crc32c.size() == bytes &&
         tables.width.size() == bytes && tables.height.size() == bytes && tables.orientation.size() == samples;
}

PackedEntry entry_at(const PackedTables& tables, std::size_t index) {
  return {.offset = number_at<std::uint64_t>(tables.offset, index),
          .length = number_at<std::uint32_t>(tables.length, index),
          .tile_count = number_at<std::uint32_t>(tables.tile_count, index),
          .label = number_at<std::int32_t>(tables.label, index),
          .crc32c = number_at<std::uint32_t>(tables.crc32c, index),
          .width = number_at<std::uint32_t>(tables.width, index),
          .height = number_at<std::uint32_t>(tables.height, index),
          .orientation = number_at<std::uint8_t>(tables.orientation, index)};
}

/// Why an entry cannot be; nothing where it can.
std::optional<std::string> objection(const PackedEntry& entry, std::uint64_t data_bytes, std::size_t classes) {
  if (entry.offset > data_bytes || entry.stored_bytes() > data_bytes - entry.offset) {
    return fmt::format("{} bytes at {} lie outside of the data ({} bytes)", entry.stored_bytes(), entry.offset,
                       data_bytes);
  }
  if (entry.label < 0 || std::cmp_greater_equal(entry.label, classes)) {
    return fmt::format("label {} is none of its {} classes", entry.label, classes);
  }
  const std::uint32_t most = entry.tile_count > 0 ? kMostJpegPixels : std::numeric_limits<std::int32_t>::max();
  if (entry.width < 1 || entry.height < 1 || entry.width > most || entry.height > most) {
    return fmt::format("a picture cannot have {} x {} pixels", entry.width, entry.height);
  }
  if (entry.orientation < 1 || entry.orientation > 8) {
    return fmt::format("{} is no EXIF orientation", entry.orientation);
  }
  return std::nullopt;
}

}  // namespace

Result<PackedLayout> read_packed_layout(const storage::File& opened_file, const std::string& path,
                                        std::uint64_t file_bytes) {
  storage::silence_hdf5();
  // HDF5 is to see the file that is read later, even where the path is replaced meanwhile.
  const std::string opened = storage::hdf5_path(opened_file, path);
  const Handle file(H5Fopen(opened.c_str(), H5F_ACC_RDONLY, storage::hdf5_file_access().get()), H5Fclose);
  if (!file) {
    return damaged_packed_file(path, "is cut, damaged or no HDF5 file: " + storage::hdf5_reason());
  }
  PackedLayout layout;
  if (auto root = read_root(file.get(), path, layout); !root) {
    return root.error();
  }
  struct Row {
    const char* name;
    hid_t type;
    DataSetPlace* place;
  };
  const LayoutReader reader(file.get(), path, file_bytes);
  for (const Row& row : {Row{packed_schema::kData, H5T_STD_U8LE, &layout.data},
                         Row{packed_schema::kOffset, H5T_STD_U64LE, &layout.offset},
                         Row{packed_schema::kLength, H5T_STD_U32LE, &layout.length},
                         Row{packed_schema::kTileCount, H5T_STD_U32LE, &layout.tile_count},
                         Row{packed_schema::kLabel, H5T_STD_I32LE, &layout.label},
                         Row{packed_schema::kCrc, H5T_STD_U32LE, &layout.crc32c},
                         Row{packed_schema::kWidth, H5T_STD_U32LE, &layout.width},
                         Row{packed_schema::kHeight, H5T_STD_U32LE, &layout.height},
                         Row{packed_schema::kOrientation, H5T_STD_U8LE, &layout.orientation},
                         Row{packed_schema::kNameOffset, H5T_STD_U64LE, &layout.name_offset},
                         Row{packed_schema::kNameData, H5T_STD_U8LE, &layout.name_data},
                         Row{packed_schema::kClassNames, H5T_C_S1, &layout.class_names}}) {
    if (auto read = reader.read(row.name, row.type, *row.place); !read) {
      return read.error();
    }
  }
  return layout;
}

Error damaged_packed_file(std::string value, std::string reason) {
  return fail("--data", std::move(value), std::move(reason), "packing the images again with rollcall-pack",
              ExitCode::BadData);
}

Result<std::vector<PackedEntry>> join_packed_tables(const PackedTables& tables, std::uint64_t data_bytes,
                                                    std::size_t classes) {
  const std::size_t samples = tables.offset.size() / sizeof(std::uint64_t);
  if (!same_lengths(tables, samples)) {
    return damaged_packed_file("", "is damaged: its tables have different lengths");
  }
  std::vector<PackedEntry> entries(samples);
  for (std::size_t i = 0; i < samples; ++i) {
    entries[i] = entry_at(tables, i);
    if (const auto reason = objection(entries[i], data_bytes, classes)) {
      return damaged_packed_file("", fmt::format("is damaged: sample {}: {}", i, *reason));
    }
  }
  return entries;
}

Result<std::span<const std::uint16_t>> unpack_tile_lengths(const PackedEntry& entry, std::span<const std::byte> stored,
                                                           std::vector<std::uint16_t>& lengths) {
  const std::size_t count = entry.tile_count;
  if (stored.size() != entry.stored_bytes()) {
    return damaged_packed_file("", "is damaged: a picture's tile lengths are missing");
  }
  if (lengths.size() < count) {
    lengths.resize(count);
  }
  if (count > 0) {
    std::memcpy(lengths.data(), stored.data() + entry.length, count * sizeof(std::uint16_t));
  }
  const std::span<const std::uint16_t> unpacked = std::span(lengths).first(count);
  if (std::accumulate(unpacked.begin(), unpacked.end(), std::uint64_t{0}) > entry.length) {
    return damaged_packed_file("", "is damaged: a picture's tiles are longer than the picture");
  }
  return unpacked;
}

}  // namespace rollcall::data
