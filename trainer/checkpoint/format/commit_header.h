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
struct CommitHeader {
  std::uint32_t major_version = 0;  ///< of the format
  std::uint64_t file_bytes = 0;
  std::uint64_t manifest_offset = 0;
  std::uint64_t manifest_bytes = 0;
  std::uint32_t manifest_crc32c = 0;
  std::uint32_t structure_crc32c = 0;  ///< see structure_crc32c()

  friend bool operator==(const CommitHeader&, const CommitHeader&) = default;
};

inline constexpr std::size_t kCommitHeaderBytes = 64;

/// Space before HDF5's first byte, its "user block": a page, which the commit header shares with nothing else.
inline constexpr std::uint64_t kUserBlockBytes = 4096;

[[nodiscard]] std::array<std::byte, kCommitHeaderBytes> encode_commit_header(const CommitHeader& header);

/// Returns whether `bytes` (the beginning of a file) begin like a commit header, sound or not.
[[nodiscard]] bool starts_as_commit_header(std::span<const std::byte> bytes);

/// Decodes a commit header; nothing if the bytes are not one, or its checksum is wrong.
[[nodiscard]] std::optional<CommitHeader> decode_commit_header(std::span<const std::byte> bytes);

/// Returns the CRC-32C of a file's bytes that belong neither to its commit header nor to a data set: HDF5's structures
/// and attributes. Gaps shorter than kAlignment between two data sets are padding and excluded. `manifest_entry`:
/// /manifest, which is not in `manifest`. Returns nothing if the system fails to read (errno) or the file is shorter
/// than `file_bytes`.
[[nodiscard]] std::optional<std::uint32_t> structure_crc32c(const storage::File& file, std::uint64_t file_bytes,
                                                            const Manifest& manifest,
                                                            const ManifestEntry& manifest_entry);

}  // namespace rollcall::checkpoint::format
