#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace rollcall {

/// What became of reading a file: `reason` is empty where it was read. `error_number` is errno's value where the system
/// refused it, 0 where the file is none that is read.
struct FileReading {
  int error_number = 0;
  std::string reason;
};

/// False where nothing has this name; true where something does or the system does not say, as in a folder that this
/// process may not enter: reading it then says why not.
[[nodiscard]] bool may_exist(const std::string& path);

/// Appends the whole of a regular file to `content`. Whatever the name stands for, it costs neither time nor memory
/// without bound: a FIFO, a device or a folder is refused, and so is what is longer than `most` bytes, also where it
/// grows while it is read. Only a file system that does not answer can hold this up.
[[nodiscard]] FileReading read_small_file(const std::string& path, std::size_t most, std::string& content);

/// The same of one that was opened for reading with O_NONBLOCK; it stays open.
[[nodiscard]] FileReading read_small_file(int descriptor, std::size_t most, std::string& content);

/// The whole of a file, as those of /proc are; empty where read_small_file() does not read it.
[[nodiscard]] std::string content_of(const std::filesystem::path& path, std::size_t most = std::size_t{1} << 16);

/// Its first line without blanks around it, as of a file of /sys.
[[nodiscard]] std::string first_line_of(const std::filesystem::path& path);

/// The paths of what a folder holds, sorted. Of one that cannot be listed to its end what was seen; `error` says why.
[[nodiscard]] std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder,
                                                            std::error_code& error);
[[nodiscard]] std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

}  // namespace rollcall
