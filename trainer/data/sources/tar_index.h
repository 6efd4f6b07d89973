#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::data {

/// A file inside a tar archive.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  ///< offset of its first byte in the archive
  std::uint64_t bytes = 0;
};

/// Reads `bytes` of an archive at an offset; returns false if they cannot be read.
using ReadAt = std::function<bool(std::span<std::byte> bytes, std::uint64_t offset)>;

/// Called for each file; an error ends the reading.
using TakeMember = std::function<Result<void>(const TarMember& member)>;

/// Passes the regular files of a tar archive of `archive_bytes` bytes to `take`, in order, and returns the number of
/// bytes in empty blocks after the last member. Reads only headers and the end. Supports ustar (POSIX.1-1988), GNU's
/// long names (type L) and pax headers (POSIX.1-2001: `path` and `size`). Links are passed to `take_link` (without
/// bytes); folders and devices are ignored. An archive may lack its two final empty blocks, but may not end inside a
/// member. Accepts any bytes: names have at most 64 KiB, and every member is inside the archive. Errors: those of
/// `take` and `take_link`; BadData, without the archive's name, which the caller adds: a wrong header checksum, an
/// invalid size, a truncated archive, a second archive after its end, a sparse file, a part of a multi-volume file.
/// Sources: POSIX.1-2017, pax(1p), "ustar Interchange Format"; GNU tar manual, "Basic Tar Format".
[[nodiscard]] Result<std::uint64_t> index_tar(std::uint64_t archive_bytes, const ReadAt& read_at,
                                              const TakeMember& take, const TakeMember& take_link = nullptr);

}  // namespace rollcall::data
