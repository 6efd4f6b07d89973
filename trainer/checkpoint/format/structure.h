#pragma once

#include <cstdint>
#include <optional>

#include "trainer/checkpoint/format/manifest.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::format {

/// CRC-32C of a file's bytes that are neither its seal nor belong to a data set: HDF5's structures and attributes.
/// Stretches shorter than kAlignment between two data sets are padding and left out. `manifest_entry`: /manifest, which
/// is not in `manifest`. Nothing where the system fails to read (errno) or the file is shorter than `file_bytes`.
[[nodiscard]] std::optional<std::uint32_t> structure_crc32c(const storage::File& file, std::uint64_t file_bytes,
                                                            const Manifest& manifest,
                                                            const ManifestEntry& manifest_entry);

}  // namespace rollcall::checkpoint::format
