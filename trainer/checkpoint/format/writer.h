#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/block_file.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/rank_group.h"

namespace rollcall::checkpoint::format {

/// The stages of a write, in this order (BlockWritten once for each block of this rank).
enum class WritePoint {
  StructuresCreated,  ///< rank 0: the temporary file exists and has space for all data sets
  BlockWritten,
  DataVerified,   ///< this rank's data is on the device and was read back; rank 0: HDF5's structures too, in memory
  HeaderWritten,  ///< rank 0: structures, checksums, manifest and commit header are on the device
  Verified,       ///< rank 0: their checksums were correct when read back
  Renamed,        ///< rank 0: the file has its name
};

struct WriterOptions {
  std::string writer = "rollcall";  ///< program and version
  std::string torch_version{};      ///< empty: unknown
  ReadBack read_back = ReadBack::Memory;
  std::size_t threads = 2;                  ///< number of blocks in progress, with 2 MiB of buffer each
  std::function<void(WritePoint)> after{};  ///< called at each point, from one thread at a time; may be empty
  /// Called on rank 0 before the file is renamed: an error ends the write, and `path` is unchanged. May be empty.
  std::function<Result<void>()> before_rename{};
};

/// Writes a checkpoint of all ranks of `group` to `path` so that at every instant the file of that name is absent, the
/// previous one or the whole new one. Rank 0 creates the structures (HDF5). Every rank writes its bytes of each tensor,
/// syncs, reads back and compares. Meanwhile rank 0 adds checksums and manifest, then the commit header, checks these
/// as well, renames the file and syncs the folder. Collective, on any thread. `path` and `options` of rank 0 count,
/// except that `threads`, `read_back` and `after` are each rank's own. All ranks must see the same folder, which must
/// exist; the file gets mode 0644 without the bits of the umask.
///
/// `content` of rank 0 names all tensors (also those of which it has no bytes) and has all values; of other ranks only
/// the bytes of their tensors are used. The bytes must not change meanwhile.
///
/// Errors, the same on all ranks (CannotCreate: the temporary file cannot be created; InputOutput: disk full, quota,
/// reading back differs; Mismatch: a rank has a tensor that rank 0 does not have, or of another size; Internal: bytes
/// that no rank or two ranks provide; Unavailable: a peer was lost): the temporary file is removed and `path` is
/// unchanged, unless only the folder could not be synced. One write at a time in a process (see storage::Handle).
[[nodiscard]] Result<void> write_checkpoint(const std::string& path, const Content& content,
                                            const WriterOptions& options, RankGroup& group);

/// Does the same for a process alone.
[[nodiscard]] Result<void> write_checkpoint(const std::string& path, const Content& content,
                                            const WriterOptions& options);

}  // namespace rollcall::checkpoint::format
