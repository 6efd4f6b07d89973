#pragma once

#include <string>

#include "runtime/doctor/facts.h"

namespace rollcall::doctor {

/// Writes a small file into the folder `path`, forces it to the disk, and removes it (where the file system can, it
/// never gets a name); asks for the free space and inodes. With quotas these are the file system's, as statvfs(2) says.
[[nodiscard]] FolderFacts observe_folder(const std::string& path);

/// The size of the file system at `path` in bytes; 0 where there is none.
[[nodiscard]] std::uint64_t file_system_bytes(const std::string& path);

}  // namespace rollcall::doctor
