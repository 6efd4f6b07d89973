#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"

namespace rollcall::checkpoint::format {

/// Points that a write passes, in this order (DatasetWritten once per data set).
enum class Stage {
  SkeletonCreated,  ///< the temporary file holds all structures and checksums, but no data
  DatasetWritten,
  Synced,          ///< all data is on the device
  Verified,        ///< every data set was read back and its checksum was right
  MarkedComplete,  ///< the `complete` attribute is 1, and on the device
  Renamed,         ///< the file has its name
};

struct WriterOptions {
  std::string writer = "rollcall";     ///< program and version
  std::string torch_version{};         ///< empty: unknown
  std::function<void(Stage)> after{};  ///< told after each stage, for tests that interrupt there; may be empty
};

/// Name of the file that this process writes before it renames it to `path`: "<path>.tmp-<host>-<pid>".
[[nodiscard]] std::string temporary_name(const std::string& path);

/// Writes `content` to `path` so that the file of that name is at every instant absent, the former one or the whole new
/// one: structures first (HDF5), data into them (pwrite), fsync, everything read back and checked, marked complete,
/// renamed, folder synced. The folder must exist; the file gets the permissions that the umask leaves of 0666.
///
/// Errors (CannotCreate: the temporary file cannot be created; InputOutput: disk full, quota, reading back differs):
/// the temporary file is gone and `path` as it was. Not thread-safe (see storage::Handle).
[[nodiscard]] Result<void> write_checkpoint(const std::string& path, const Content& content,
                                            const WriterOptions& options);

}  // namespace rollcall::checkpoint::format
