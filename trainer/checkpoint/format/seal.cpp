#include "trainer/checkpoint/format/seal.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "trainer/storage/crc.h"

namespace rollcall::checkpoint::format {
namespace {

static_assert(std::endian::native == std::endian::little, "the commit header is little-endian");

// As in PNG: a byte above ASCII, both kinds of line ends and an end-of-file character, so that a transfer as text is
// noticed.
constexpr std::array<unsigned char, 8> kMagic{0x89, 'R', 'C', 'K', '\r', '\n', 0x1a, '\n'};

constexpr std::size_t kMajorAt = 8;
constexpr std::size_t kFileBytesAt = 16;
constexpr std::size_t kManifestOffsetAt = 24;
constexpr std::size_t kManifestBytesAt = 32;
constexpr std::size_t kManifestCrcAt = 40;
constexpr std::size_t kStructureCrcAt = 44;
constexpr std::size_t kOwnCrcAt = 60;

template <typename Number>
void put(std::span<std::byte> bytes, std::size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof(number));
}

template <typename Number>
void take(std::span<const std::byte> bytes, std::size_t at, Number& number) {
  std::memcpy(&number, bytes.data() + at, sizeof(number));
}

struct Stretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Returns the ranges that no data set occupies, from the end of the seal to the end of the file.
std::vector<Stretch> unoccupied(std::uint64_t file_bytes, const Manifest& manifest,
                                const ManifestEntry& manifest_entry) {
  std::vector<Stretch> occupied{{manifest_entry.offset, manifest_entry.offset + manifest_entry.bytes}};
  for (const ManifestEntry& entry : manifest.datasets) {
    if (entry.bytes > 0) {
      occupied.push_back({entry.offset, entry.offset + entry.bytes});
    }
  }
  occupied.push_back({file_bytes, file_bytes});
  std::sort(occupied.begin(), occupied.end(), [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  std::vector<Stretch> rest;
  std::uint64_t at = kSealBytes;
  for (const Stretch& stretch : occupied) {
    const bool padding = stretch.begin < at + kAlignment && stretch.begin < file_bytes;
    if (!padding && stretch.begin > at) {
      rest.push_back({at, stretch.begin});
    }
    at = std::max(at, stretch.end);
  }
  return rest;
}

}  // namespace

std::array<std::byte, kSealBytes> encode_seal(const Seal& seal) {
  std::array<std::byte, kSealBytes> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(bytes, kMajorAt, seal.major_version);
  put(bytes, kFileBytesAt, seal.file_bytes);
  put(bytes, kManifestOffsetAt, seal.manifest_offset);
  put(bytes, kManifestBytesAt, seal.manifest_bytes);
  put(bytes, kManifestCrcAt, seal.manifest_crc32c);
  put(bytes, kStructureCrcAt, seal.structure_crc32c);
  put(bytes, kOwnCrcAt, storage::crc32c(std::span(bytes).first(kOwnCrcAt)));
  return bytes;
}

bool starts_as_seal(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

std::optional<Seal> decode_seal(std::span<const std::byte> bytes) {
  if (bytes.size() < kSealBytes || !starts_as_seal(bytes)) {
    return std::nullopt;
  }
  std::uint32_t own_crc = 0;
  take(bytes, kOwnCrcAt, own_crc);
  if (storage::crc32c(bytes.first(kOwnCrcAt)) != own_crc) {
    return std::nullopt;
  }
  Seal seal;
  take(bytes, kMajorAt, seal.major_version);
  take(bytes, kFileBytesAt, seal.file_bytes);
  take(bytes, kManifestOffsetAt, seal.manifest_offset);
  take(bytes, kManifestBytesAt, seal.manifest_bytes);
  take(bytes, kManifestCrcAt, seal.manifest_crc32c);
  take(bytes, kStructureCrcAt, seal.structure_crc32c);
  return seal;
}

std::optional<std::uint32_t> structure_crc32c(const storage::File& file, std::uint64_t file_bytes,
                                              const Manifest& manifest, const ManifestEntry& manifest_entry) {
  constexpr std::uint64_t kChunk = std::uint64_t{256} << 10U;
  std::vector<std::byte> chunk(kChunk);
  std::uint32_t crc = 0;
  for (const Stretch& stretch : unoccupied(file_bytes, manifest, manifest_entry)) {
    for (std::uint64_t at = stretch.begin; at < stretch.end;) {
      const auto part = std::span(chunk).first(std::min(kChunk, stretch.end - at));
      const auto got = file.read_at(part, at);
      if (!got || *got != part.size()) {
        errno = got ? EIO : errno;
        return std::nullopt;
      }
      crc = storage::crc32c(part, crc);
      at += part.size();
    }
  }
  return crc;
}

}  // namespace rollcall::checkpoint::format
