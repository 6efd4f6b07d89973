#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/block_file.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/rank_group.h"

namespace rollcall::checkpoint::format {

/// Points that a write passes, in this order (BlockWritten once for each block of this rank).
enum class WritePoint {
  StructuresCreated,  ///< rank 0: the temporary file is there, and room for all data sets
  BlockWritten,
  DataVerified,  ///< this rank's data is on the device and was read back; rank 0: so are HDF5's structures, in memory
  Sealed,        ///< rank 0: structures, checksums, manifest and seal are on the device
  Verified,      ///< rank 0: their checksums were right, read back
  Renamed,       ///< rank 0: the file has its name
};

struct WriterOptions {
  std::string writer = "rollcall";  ///< program and version
  std::string torch_version{};      ///< empty: unknown
  ReadBack read_back = ReadBack::Memory;
  std::size_t threads = 2;                  ///< blocks on their way at a time, with 2 MiB of buffer each
  std::function<void(WritePoint)> after{};  ///< told at each point, by one thread at a time; may be empty
  /// Asked on rank 0 before the file gets its name: an error ends the write, and `path` stays as it was. May be empty.
  std::function<Result<void>()> before_rename{};
};

/// Writes a checkpoint of all ranks of `group` to `path` so that the file of that name is at every instant absent, the
/// former one or the whole new one: rank 0 creates the structures (HDF5), every rank writes its bytes of each tensor
/// into them, fsyncs, reads back and compares, rank 0 meanwhile adds checksums and manifest, then the seal, checks
/// these as well, renames the file and syncs the folder. Collective, on any thread; `path` and `options` of rank 0
/// count (but `threads`, `read_back`, `after` are each rank's own). All ranks must see the same folder, which must
/// exist; the file gets the permissions that the umask leaves of 0666.
///
/// `content` of rank 0 names all tensors (those too of which it gives no bytes) and has all values; of other ranks only
/// what they give of the tensors is looked at. The bytes must not change meanwhile.
///
/// Errors, the same on all ranks (CannotCreate: the temporary file cannot be created; InputOutput: disk full, quota,
/// reading back differs; Mismatch: a rank gives a tensor that rank 0 does not know, or of another size; Internal: bytes
/// that no rank gives, or two; Unavailable: a peer was lost): the temporary file is gone and `path` as it was, except
/// where only the folder could not be synced. One write at a time in a process (see storage::Handle).
[[nodiscard]] Result<void> write_checkpoint(const std::string& path, const Content& content,
                                            const WriterOptions& options, RankGroup& group);

/// Of a process by itself.
[[nodiscard]] Result<void> write_checkpoint(const std::string& path, const Content& content,
                                            const WriterOptions& options);

}  // namespace rollcall::checkpoint::format
