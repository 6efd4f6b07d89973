#include "trainer/data/image/splice.h"

#include <cstring>

#include "trainer/data/image/jpeg_markers.h"

namespace rollcall::data {
namespace {

constexpr std::uint8_t kMarkerPrefix = 0xff;
// libjpeg-turbo decodes carefully, and slowly, where fewer bytes than the longest MCU are left.
constexpr std::size_t kTail = 6144;

void put_uint16(std::uint8_t* at, int value) {
  at[0] = static_cast<std::uint8_t>(value >> 8);
  at[1] = static_cast<std::uint8_t>(value);
}

void put_marker(std::uint8_t* at, JpegMarker marker) {
  at[0] = kMarkerPrefix;
  at[1] = static_cast<std::uint8_t>(marker);
}

/// Copies the header with the size that the chosen tiles have.
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
                                  KeptMemory& memory) {
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
                                         KeptMemory& memory) {
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
