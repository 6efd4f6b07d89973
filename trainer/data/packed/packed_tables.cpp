#include "trainer/data/packed/packed_tables.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

namespace rollcall::data {
namespace {

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
  if (entry.label < 0 || static_cast<std::size_t>(entry.label) >= classes) {
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
