#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/storage/hdf5_headers.h"

namespace rollcall::test {

/// Bytes of an HDF5 file that end with their checksum: its superblock, an object header, a continuation of one.
struct ChecksummedStretch {
  std::size_t begin = 0;
  std::size_t end = 0;  ///< behind the checksum

  [[nodiscard]] std::size_t checksum_at() const { return end - sizeof(std::uint32_t); }
};

/// All of a sound file, found by their signatures.
inline std::vector<ChecksummedStretch> checksummed_stretches(std::span<const std::byte> file) {
  constexpr std::size_t kSuperblock = 48;
  constexpr std::size_t kLongest = 4096;
  std::vector<ChecksummedStretch> found{{0, kSuperblock}};
  for (std::size_t at = kSuperblock; at + 8 <= file.size(); ++at) {
    const std::string_view signature(reinterpret_cast<const char*>(file.data() + at), 4);
    if (signature != "OHDR" && signature != "OCHK") {
      continue;
    }
    for (std::size_t length = 4; length <= kLongest && at + length + 4 <= file.size(); ++length) {
      const std::uint32_t checksum = storage::hdf5_checksum(file.subspan(at, length));
      if (std::memcmp(file.data() + at + length, &checksum, sizeof(checksum)) == 0) {
        found.push_back({at, at + length + sizeof(checksum)});
        break;
      }
    }
  }
  return found;
}

/// Makes the checksums those of what was changed: what an author who means harm does.
inline void renew_checksums(std::span<std::byte> file, std::span<const ChecksummedStretch> stretches) {
  for (const ChecksummedStretch& stretch : stretches) {
    const auto bytes = file.subspan(stretch.begin, stretch.checksum_at() - stretch.begin);
    const std::uint32_t checksum = storage::hdf5_checksum(bytes);
    std::memcpy(file.data() + stretch.checksum_at(), &checksum, sizeof(checksum));
  }
}

}  // namespace rollcall::test
