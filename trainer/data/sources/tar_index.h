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

/// A file inside of a tar archive.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  ///< of its first byte in the archive
  std::uint64_t bytes = 0;
};

/// Reads `bytes` of an archive from an offset on; false where they cannot be read.
using ReadAt = std::function<bool(std::span<std::byte> bytes, std::uint64_t offset)>;

/// What becomes of each file; an error ends the reading.
using TakeMember = std::function<Result<void>(const TarMember& member)>;

/// Gives the regular files of a tar archive of `archive_bytes` bytes, in its order; reads only headers, and what is
/// behind the last member; returns how many bytes of empty blocks are there. Understands
/// ustar (POSIX.1-1988), GNU's long names (type L) and pax headers (POSIX.1-2001: `path` and `size`); links go to
/// `take_link` (no bytes), folders and devices are passed over. An archive may end without its two empty blocks, but
/// not inside of a member. Takes any bytes: names are at most 64 KiB, and every member lies inside the archive. Errors:
/// those of `take` and `take_link`; BadData, without the archive's name, which the caller knows: a wrong header
/// checksum, a size that makes no sense, an archive that is cut, a second one behind its end, a sparse file, a part of
/// one in another archive. Source: POSIX.1-2017, pax(1p), "ustar Interchange Format"; GNU tar manual, "Basic Tar
/// Format".
[[nodiscard]] Result<std::uint64_t> index_tar(std::uint64_t archive_bytes, const ReadAt& read_at,
                                              const TakeMember& take, const TakeMember& take_link = nullptr);

}  // namespace rollcall::data
