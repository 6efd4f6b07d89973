#include "trainer/data/sources/packed_format.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/storage/hdf5_headers.h"

namespace rollcall::data {
namespace {

using storage::Hdf5Header;
using storage::Hdf5Type;

Error of_another_format(const std::string& path, const std::string& detail) {
  return fail("--data", path, fmt::format("is an HDF5 file, but not in format {}{}", packed_schema::kFormat, detail),
              "naming a file that rollcall-pack wrote", ErrorKind::BadData);
}

Result<void> read_root(const Hdf5Header& root, const std::string& path, PackedLayout& layout) {
  if (root.text(packed_schema::kFormatAttribute) != packed_schema::kFormat) {
    return of_another_format(path, "");
  }
  layout.format_version = root.text(packed_schema::kVersionAttribute).value_or("");
  const auto major = parse_integer<int>(layout.format_version.substr(0, layout.format_version.find('.')));
  if (!major) {
    return damaged_packed_file(path, "is damaged: it has no format version");
  }
  if (*major > packed_schema::kMajorVersion) {
    return fail("--data", path,
                fmt::format("has format version {}, but this program reads only versions up to {}.x",
                            layout.format_version, packed_schema::kMajorVersion),
                "upgrading rollcall", ErrorKind::Mismatch);
  }
  if (root.number(packed_schema::kCompleteAttribute) != 1U) {
    return damaged_packed_file(path, "is incomplete: its packing did not finish");
  }
  layout.writer = root.text(packed_schema::kWriterAttribute).value_or("");
  layout.created = root.text(packed_schema::kCreatedAttribute).value_or("");
  layout.input_crc32c = root.number(packed_schema::kInputAttribute);
  return {};
}

bool is_inside(const DataSetLocation& place, std::uint64_t file_bytes) {
  return place.element_bytes > 0 && place.start <= file_bytes &&
         place.elements <= (file_bytes - place.start) / place.element_bytes;
}

/// `type` is the required type of the elements; texts may have any length.
Result<DataSetLocation> read_location(const storage::File& file, const Hdf5Header& root, const char* name,
                                      Hdf5Type type, std::uint64_t file_bytes) {
  const auto object = root.child(file, std::string_view(name).substr(1));
  if (!object) {
    return damaged_packed_file("", fmt::format("is damaged: {} cannot be opened", name));
  }
  const auto array = object->array();
  const bool any_length = type.kind == Hdf5Type::Kind::Text;
  if (!array || array->type.kind != type.kind || (!any_length && array->type.bytes != type.bytes)) {
    return damaged_packed_file("", fmt::format("is damaged: {} has an unexpected type or layout", name));
  }
  const DataSetLocation place{.start = array->start,
                              .elements = array->elements,
                              .element_bytes = array->type.bytes,
                              .crc32c = object->number(packed_schema::kCrcAttribute)};
  if (!is_inside(place, file_bytes)) {
    return damaged_packed_file("", fmt::format("is damaged: {} extends beyond the file", name));
  }
  return place;
}

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

/// Returns why an entry is impossible; nothing if it is possible.
std::optional<std::string> objection(const PackedEntry& entry, std::uint64_t data_bytes, std::size_t classes) {
  if (entry.offset > data_bytes || entry.stored_bytes() > data_bytes - entry.offset) {
    return fmt::format("{} bytes at {} lie outside of the data ({} bytes)", entry.stored_bytes(), entry.offset,
                       data_bytes);
  }
  if (entry.label < 0 || std::cmp_greater_equal(entry.label, classes)) {
    return fmt::format("label {} is not one of its {} classes", entry.label, classes);
  }
  const std::uint32_t most = entry.tile_count > 0 ? kMostJpegPixels : std::numeric_limits<std::int32_t>::max();
  if (entry.width < 1 || entry.height < 1 || entry.width > most || entry.height > most) {
    return fmt::format("a picture cannot have {} x {} pixels", entry.width, entry.height);
  }
  if (entry.orientation < 1 || entry.orientation > 8) {
    return fmt::format("{} is not an EXIF orientation", entry.orientation);
  }
  return std::nullopt;
}

}  // namespace

Result<PackedLayout> read_packed_layout(const storage::File& file, const std::string& path, std::uint64_t file_bytes) {
  const Result<Hdf5Header> root = Hdf5Header::read_root(file, file_bytes);
  if (!root && root.error().kind == ErrorKind::Mismatch) {
    return of_another_format(path, ": " + root.error().reason);
  }
  if (!root && root.error().kind == ErrorKind::NoInput) {
    return fail(
        "--data", path, "is neither an HDF5 file nor a tar archive; lists of labels, such as CSV, are not read",
        "naming a folder with one sub-folder of images per class, a file that rollcall-pack wrote, or tar shards",
        ErrorKind::BadData);
  }
  if (!root) {
    return damaged_packed_file(path, "is a truncated or damaged HDF5 file: " + root.error().reason);
  }
  PackedLayout layout;
  RETURN_IF_ERROR(read_root(*root, path, layout));
  using enum Hdf5Type::Kind;
  struct Row {
    const char* name;
    Hdf5Type type;
    DataSetLocation* place;
  };
  for (const Row& row :
       {Row{packed_schema::kData, {Unsigned, 1}, &layout.data},
        Row{packed_schema::kOffset, {Unsigned, 8}, &layout.offset},
        Row{packed_schema::kLength, {Unsigned, 4}, &layout.length},
        Row{packed_schema::kTileCount, {Unsigned, 4}, &layout.tile_count},
        Row{packed_schema::kLabel, {Signed, 4}, &layout.label}, Row{packed_schema::kCrc, {Unsigned, 4}, &layout.crc32c},
        Row{packed_schema::kWidth, {Unsigned, 4}, &layout.width},
        Row{packed_schema::kHeight, {Unsigned, 4}, &layout.height},
        Row{packed_schema::kOrientation, {Unsigned, 1}, &layout.orientation},
        Row{packed_schema::kNameOffset, {Unsigned, 8}, &layout.name_offset},
        Row{packed_schema::kNameData, {Unsigned, 1}, &layout.name_data},
        Row{packed_schema::kClassNames, {Text, 0}, &layout.class_names}}) {
    const Result<DataSetLocation> place = read_location(file, *root, row.name, row.type, file_bytes);
    if (!place) {
      Error error = place.error();
      error.value = path;
      return error;
    }
    *row.place = *place;
  }
  return layout;
}

Error damaged_packed_file(std::string value, std::string reason) {
  return fail("--data", std::move(value), std::move(reason), "packing the images again with rollcall-pack",
              ErrorKind::BadData);
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
