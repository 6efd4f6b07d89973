#include "trainer/checkpoint/format/commit_header.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "trainer/storage/crc.h"

namespace rollcall::checkpoint::format {
namespace {

static_assert(std::endian::native == std::endian::little, "the commit header is little-endian");

// Has a byte above ASCII, both kinds of line ends and an end-of-file character, as PNG's first bytes do, so that a
// transfer as text is noticed.
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

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Returns the ranges that no data set occupies, from the end of the commit header to the end of the file.
std::vector<Extent> unoccupied(std::uint64_t file_bytes, const Manifest& manifest,
                               const ManifestEntry& manifest_entry) {
  std::vector<Extent> occupied{{manifest_entry.offset, manifest_entry.offset + manifest_entry.bytes}};
  for (const ManifestEntry& entry : manifest.datasets) {
    if (entry.bytes > 0) {
      occupied.push_back({entry.offset, entry.offset + entry.bytes});
    }
  }
  occupied.push_back({file_bytes, file_bytes});
  std::sort(occupied.begin(), occupied.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::vector<Extent> rest;
  std::uint64_t at = kCommitHeaderBytes;
  for (const Extent& extent : occupied) {
    const bool padding = extent.begin < at + kAlignment && extent.begin < file_bytes;
    if (!padding && extent.begin > at) {
      rest.push_back({at, extent.begin});
    }
    at = std::max(at, extent.end);
  }
  return rest;
}

}  // namespace

std::array<std::byte, kCommitHeaderBytes> encode_commit_header(const CommitHeader& header) {
  std::array<std::byte, kCommitHeaderBytes> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(bytes, kMajorAt, header.major_version);
  put(bytes, kFileBytesAt, header.file_bytes);
  put(bytes, kManifestOffsetAt, header.manifest_offset);
  put(bytes, kManifestBytesAt, header.manifest_bytes);
  put(bytes, kManifestCrcAt, header.manifest_crc32c);
  put(bytes, kStructureCrcAt, header.structure_crc32c);
  put(bytes, kOwnCrcAt, storage::crc32c(std::span(bytes).first(kOwnCrcAt)));
  return bytes;
}

bool starts_as_commit_header(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

std::optional<CommitHeader> decode_commit_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kCommitHeaderBytes || !starts_as_commit_header(bytes)) {
    return std::nullopt;
  }
  std::uint32_t own_crc = 0;
  take(bytes, kOwnCrcAt, own_crc);
  if (storage::crc32c(bytes.first(kOwnCrcAt)) != own_crc) {
    return std::nullopt;
  }
  CommitHeader header;
  take(bytes, kMajorAt, header.major_version);
  take(bytes, kFileBytesAt, header.file_bytes);
  take(bytes, kManifestOffsetAt, header.manifest_offset);
  take(bytes, kManifestBytesAt, header.manifest_bytes);
  take(bytes, kManifestCrcAt, header.manifest_crc32c);
  take(bytes, kStructureCrcAt, header.structure_crc32c);
  return header;
}

std::optional<std::uint32_t> structure_crc32c(const storage::File& file, std::uint64_t file_bytes,
                                              const Manifest& manifest, const ManifestEntry& manifest_entry) {
  constexpr std::uint64_t kChunk = std::uint64_t{256} << 10U;
  std::vector<std::byte> chunk(kChunk);
  std::uint32_t crc = 0;
  for (const Extent& extent : unoccupied(file_bytes, manifest, manifest_entry)) {
    for (std::uint64_t at = extent.begin; at < extent.end;) {
      const auto part = std::span(chunk).first(std::min(kChunk, extent.end - at));
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
