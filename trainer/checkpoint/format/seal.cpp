#include "trainer/checkpoint/format/seal.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trainer/storage/crc32c.h"

namespace rollcall::checkpoint::format {
namespace {

static_assert(std::endian::native == std::endian::little, "the seal is little-endian");

// As in PNG: a byte above ASCII, both kinds of line ends, and the byte that ends a text, so that transfers as text
// show.
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

}  // namespace rollcall::checkpoint::format
