#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::format {

/// Whether a file that begins with `bytes` is an HDF5 file without a user block, as those of format 1.0 are.
[[nodiscard]] bool starts_as_hdf5(std::span<const std::byte> bytes);

/// What a reader needs of a file of format 1.0, open as `file`, which has no seal: its own manifest lacks offsets,
/// shapes and types, so the HDF5 library is asked. Version 1.10 of it can crash on structures that were forged,
/// checksums and all; so that happens in a child process, at most 60 seconds long. Each data set is one piece.
///
/// Errors: BadData where the file is damaged, unfinished or of another format; Mismatch where its format is newer;
/// InputOutput where no child can be made.
[[nodiscard]] Result<Manifest> manifest_of_format_1_0(const storage::File& file, const std::string& path);

/// The Error for a format that this version cannot read.
[[nodiscard]] Error newer_format(const std::string& path, const std::string& version);

}  // namespace rollcall::checkpoint::format
