#include "trainer/checkpoint/format/structure.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "trainer/checkpoint/format/blocks.h"
#include "trainer/checkpoint/format/seal.h"
#include "trainer/storage/crc32c.h"

namespace rollcall::checkpoint::format {
namespace {

struct Stretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// What no data set occupies, from the seal's end to the file's.
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
