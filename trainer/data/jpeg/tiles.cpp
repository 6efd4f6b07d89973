#include "trainer/data/jpeg/tiles.h"

#include <algorithm>
#include <cstring>

#include "trainer/data/encoded_image.h"
#include "trainer/data/jpeg/decompressor.h"
#include "trainer/data/jpeg/markers.h"

namespace rollcall::data {
namespace {

constexpr int kBlockSide = 8;
constexpr int kMaxTileMcus = 64;

int number_at(std::span<const std::byte> bytes, std::size_t offset) { return std::to_integer<int>(bytes[offset]); }

/// The parts of a header that tiles depend on.
struct Header {
  std::optional<JpegSegment> frame;
  std::optional<JpegSegment> interval;
  std::optional<JpegSegment> scan;
};

/// Returns nothing if the file has other segments than repack() writes, or one of those twice.
std::optional<Header> header_of(std::span<const std::byte> file) {
  Header header;
  JpegSegments segments(file);
  while (const auto segment = segments.next()) {
    std::optional<JpegSegment>* place = nullptr;
    switch (segment->marker) {
      case JpegMarker::BaselineFrame:
      case JpegMarker::ExtendedFrame:
        place = &header.frame;
        break;
      case JpegMarker::RestartInterval:
        place = &header.interval;
        break;
      case JpegMarker::StartOfScan:
        place = &header.scan;
        break;
      case JpegMarker::App0:
      case JpegMarker::App14:
      case JpegMarker::HuffmanTables:
      case JpegMarker::QuantisationTables:
        continue;
      default:
        return std::nullopt;
    }
    if (place->has_value()) {
      return std::nullopt;
    }
    *place = segment;
  }
  const bool complete = header.frame && header.interval && header.scan;
  return complete ? std::optional(header) : std::nullopt;
}

struct SamplingFactors {
  int horizontal = 0;
  int vertical = 0;
};

/// The largest sampling factors of the components; 0 if the frame header is invalid.
SamplingFactors sampling_of(std::span<const std::byte> frame) {
  constexpr std::size_t kFixedBytes = 6;  // precision, height, width, number of components
  const std::size_t components = frame.size() < kFixedBytes ? 0 : std::to_integer<std::size_t>(frame[5]);
  if ((components != 1 && components != 3) || frame.size() != kFixedBytes + 3 * components) {
    return {};
  }
  SamplingFactors most;
  for (std::size_t i = 0; i < components; ++i) {
    const int factors = number_at(frame, kFixedBytes + 3 * i + 1);
    if ((factors >> 4) < 1 || (factors >> 4) > 4 || (factors & 15) < 1 || (factors & 15) > 4) {
      return {};
    }
    most.horizontal = std::max(most.horizontal, factors >> 4);
    most.vertical = std::max(most.vertical, factors & 15);
  }
  const bool plain = components == 3 || (most.horizontal == 1 && most.vertical == 1);
  return plain ? most : SamplingFactors{};
}

bool read_layout(const Header& header, ImageSize size, TileGrid& grid) {
  const std::span<const std::byte> frame = header.frame->content;
  const SamplingFactors most = sampling_of(frame);
  const bool one_scan = header.scan->content.size() ==
                        1 + 2 * std::to_integer<std::size_t>(frame.size() > 5 ? frame[5] : std::byte{0}) + 3;
  if (most.horizontal == 0 || header.interval->content.size() != 2 || !one_scan || number_at(frame, 0) != 8) {
    return false;
  }
  grid.size = size;
  grid.tile_mcus = static_cast<int>(uint16_at(header.interval->content, 0));
  if (grid.tile_mcus < 1 || grid.tile_mcus > kMaxTileMcus) {
    return false;
  }
  grid.tile_width = grid.tile_mcus * kBlockSide * most.horizontal;
  grid.tile_height = kBlockSide * most.vertical;
  grid.columns = divided_up(size.width, grid.tile_width);
  grid.rows = divided_up(size.height, grid.tile_height);
  grid.frame_at = header.frame->at;
  grid.interval_at = header.interval->at;
  grid.can_be_halved = most.horizontal <= 2 && most.vertical <= 2;

  const int mcus = divided_up(size.width, kBlockSide * most.horizontal);
  grid.coded_width = mcus % grid.tile_mcus == 0 ? size.width : grid.columns * grid.tile_width;
  return static_cast<int>(uint16_at(frame, 1)) == size.height &&
         static_cast<int>(uint16_at(frame, 3)) == grid.coded_width;
}

/// Computes offsets from lengths; returns false if they do not add up to the file.
bool place_tiles(std::span<const std::uint16_t> lengths, std::size_t header_bytes, std::size_t file_bytes,
                 TileGrid& grid) {
  if (lengths.size() != static_cast<std::size_t>(grid.columns) * static_cast<std::size_t>(grid.rows)) {
    return false;
  }
  grid.at.clear();
  std::size_t at = header_bytes;
  for (const std::uint16_t length : lengths) {
    if (length < 2) {  // the marker
      return false;
    }
    grid.at.push_back(at);
    at += length;
  }
  grid.at.push_back(at);
  return at == file_bytes;
}

constexpr std::uint8_t kMarkerPrefix = 0xff;
// libjpeg-turbo uses a careful, slow path if fewer bytes than the longest MCU are left.
constexpr std::size_t kTail = 6144;

void put_uint16(std::uint8_t* at, int value) {
  at[0] = static_cast<std::uint8_t>(value >> 8);
  at[1] = static_cast<std::uint8_t>(value);
}

void put_marker(std::uint8_t* at, JpegMarker marker) {
  at[0] = kMarkerPrefix;
  at[1] = static_cast<std::uint8_t>(marker);
}

/// Copies the header with the size of the chosen tiles.
void copy_header(std::span<const std::byte> file, const TileGrid& grid, const TileRange& range, std::uint8_t* out) {
  std::memcpy(out, file.data(), grid.header_bytes());
  const ImageSize size = grid.coded_size(range);
  put_uint16(out + grid.frame_at + 1, size.height);
  put_uint16(out + grid.frame_at + 3, size.width);
}

std::size_t bytes_of(const TileGrid& grid, const TileRange& range) {
  std::size_t bytes = 0;
  for (int row = range.first_row; row < range.end_row; ++row) {
    const std::size_t begin = static_cast<std::size_t>(row) * static_cast<std::size_t>(grid.columns);
    bytes += grid.at[begin + static_cast<std::size_t>(range.end_column)] -
             grid.at[begin + static_cast<std::size_t>(range.first_column)];
  }
  return bytes;
}

}  // namespace

Result<void> read_tile_grid(std::span<const std::byte> file, const Tiling& tiling, TileGrid& grid) {
  RETURN_IF_ERROR(check_size(tiling.size.width, tiling.size.height));
  const std::optional<Header> header = header_of(file);
  if (!header || !read_layout(*header, tiling.size, grid)) {
    return damaged("has tile lengths, but is not a repacked JPEG file of the recorded size");
  }
  const std::size_t header_bytes = header->scan->at + header->scan->content.size();
  if (!place_tiles(tiling.tile_bytes, header_bytes, file.size(), grid)) {
    return damaged("has tile lengths that do not add up to its size");
  }
  return {};
}

TileRange TileGrid::tiles_for(const Box& box, int reduction) const {
  // Computes in pixels of the reduced picture, where the context is needed, then converts back.
  const ColumnRange columns_needed =
      with_context(box.left / reduction, divided_up(box.right(), reduction), divided_up(size.width, reduction));
  const int right = std::min(columns_needed.end * reduction, size.width);
  const int top = std::max((box.top / reduction - 1) * reduction, 0);
  const int bottom = std::min((divided_up(box.bottom(), reduction) + 1) * reduction, size.height);
  return {columns_needed.first * reduction / tile_width, divided_up(right, tile_width), top / tile_height,
          divided_up(bottom, tile_height)};
}

ImageSize TileGrid::coded_size(const TileRange& range) const {
  return {std::min(range.end_column * tile_width, coded_width) - range.first_column * tile_width,
          std::min(range.end_row * tile_height, size.height) - range.first_row * tile_height};
}

int TileGrid::picture_width(const TileRange& range) const {
  return std::min(range.end_column * tile_width, size.width) - range.first_column * tile_width;
}

bool has_no_marker(std::span<const std::byte> data) {
  const auto* next = reinterpret_cast<const std::uint8_t*>(data.data());
  const std::uint8_t* const end = next + data.size();
  while (next < end) {
    next = static_cast<const std::uint8_t*>(std::memchr(next, kMarkerPrefix, static_cast<std::size_t>(end - next)));
    if (next == nullptr) {
      return true;
    }
    if (end - next < 2 || next[1] != 0) {
      return false;
    }
    next += 2;
  }
  return true;
}

std::uint8_t* unstuff(std::span<const std::byte> data, std::uint8_t* out) {
  const auto* next = reinterpret_cast<const std::uint8_t*>(data.data());
  const std::uint8_t* const end = next + data.size();
  while (next < end) {
    const auto left = static_cast<std::size_t>(end - next);
    const auto* prefix = static_cast<const std::uint8_t*>(std::memchr(next, kMarkerPrefix, left));
    if (prefix == nullptr) {
      std::memcpy(out, next, left);
      return out + left;
    }
    if (end - prefix < 2 || prefix[1] != 0) {
      return nullptr;
    }
    const auto copied = static_cast<std::size_t>(prefix + 1 - next);
    std::memcpy(out, next, copied);
    out += copied;
    next = prefix + 2;
  }
  return out;
}

std::span<const std::byte> splice(std::span<const std::byte> file, const TileGrid& grid, const TileRange& range,
                                  ReusableBuffer& memory) {
  std::uint8_t* const begin = memory.at_least(grid.header_bytes() + bytes_of(grid, range) + kTail);
  if (begin == nullptr) {
    return {};
  }
  copy_header(file, grid, range, begin);
  std::uint8_t* out = begin + grid.header_bytes();
  unsigned restart = 0;
  for (int row = range.first_row; row < range.end_row; ++row) {
    for (int column = range.first_column; column < range.end_column; ++column) {
      const std::span<const std::byte> data = grid.data_of(row, column, file);
      if (!has_no_marker(data)) {
        return {};
      }
      std::memcpy(out, data.data(), data.size());
      out += data.size() + 2;
      put_marker(out - 2, static_cast<JpegMarker>(static_cast<unsigned>(JpegMarker::Restart0) + restart++ % 8));
    }
  }
  put_marker(out - 2, JpegMarker::EndOfImage);
  std::memset(out, 0, kTail);
  return std::as_bytes(std::span(begin, out + kTail));
}

std::span<const std::byte> splice_header(std::span<const std::byte> file, const TileGrid& grid, const TileRange& range,
                                         ReusableBuffer& memory) {
  std::uint8_t* const begin = memory.at_least(grid.header_bytes() + 2);
  if (begin == nullptr) {
    return {};
  }
  copy_header(file, grid, range, begin);
  put_uint16(begin + grid.interval_at, 0);
  put_marker(begin + grid.header_bytes(), JpegMarker::EndOfImage);
  return std::as_bytes(std::span(begin, grid.header_bytes() + 2));
}

}  // namespace rollcall::data
