#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"

namespace rollcall::checkpoint::format {

/// Whether a file must say that it is complete. NotYet is for the writer, before it says so.
enum class Completeness { Required, NotYet };

/// The root attributes.
struct FileInfo {
  std::string format_version;  ///< "1.0"
  std::string writer;
  std::string torch_version;
  std::string created;  ///< ISO 8601, UTC
};

/// Reads a whole checkpoint into memory. Every byte handed out has been checked against its CRC-32C; objects of unknown
/// names and kinds are ignored.
///
/// Errors: NoInput where the file cannot be opened; BadData where it is damaged, unfinished or no checkpoint (the
/// reason names the data set); Mismatch where its format is newer than this reader; InputOutput where the system fails
/// to read. Not thread-safe (see storage::Handle); any number of processes may read the same file.
[[nodiscard]] Result<LoadedContent> read_checkpoint(const std::string& path);

/// Only the attributes. Errors: as above.
[[nodiscard]] Result<FileInfo> read_info(const std::string& path);

/// Reads and checks everything, one data set at a time. Errors: as above.
[[nodiscard]] Result<void> verify_file(const std::string& path, Completeness completeness = Completeness::Required);

}  // namespace rollcall::checkpoint::format
