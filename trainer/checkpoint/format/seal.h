#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "trainer/checkpoint/format/manifest.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::format {

/// The first 64 bytes of a file, written last as the commit record: a file without them was never finished. They give
/// the place of the manifest and the checksums of the manifest and of HDF5's structures, so that damage is found before
/// the data is used.
struct Seal {
  std::uint32_t major_version = 0;  ///< of the format
  std::uint64_t file_bytes = 0;
  std::uint64_t manifest_offset = 0;
  std::uint64_t manifest_bytes = 0;
  std::uint32_t manifest_crc32c = 0;
  std::uint32_t structure_crc32c = 0;  ///< see structure_crc32c()

  friend bool operator==(const Seal&, const Seal&) = default;
};

inline constexpr std::size_t kSealBytes = 64;

/// Space before HDF5's first byte, its "user block": a page, which the seal shares with nothing else.
inline constexpr std::uint64_t kUserBlockBytes = 4096;

[[nodiscard]] std::array<std::byte, kSealBytes> encode_seal(const Seal& seal);

/// Returns whether `bytes` (the beginning of a file) begin like a seal, sound or not.
[[nodiscard]] bool starts_as_seal(std::span<const std::byte> bytes);

/// Decodes a seal; nothing if the bytes are not one, or its checksum is wrong.
[[nodiscard]] std::optional<Seal> decode_seal(std::span<const std::byte> bytes);

/// Returns the CRC-32C of a file's bytes that belong neither to its seal nor to a data set: HDF5's structures and
/// attributes. Gaps shorter than kAlignment between two data sets are padding and excluded. `manifest_entry`:
/// /manifest, which is not in `manifest`. Returns nothing if the system fails to read (errno) or the file is shorter
/// than `file_bytes`.
[[nodiscard]] std::optional<std::uint32_t> structure_crc32c(const storage::File& file, std::uint64_t file_bytes,
                                                            const Manifest& manifest,
                                                            const ManifestEntry& manifest_entry);

}  // namespace rollcall::checkpoint::format
