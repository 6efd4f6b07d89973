#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace rollcall {

/// The result of reading a file.
struct FileReading {
  int error_number = 0;  ///< errno where the system refused; 0 on success and for a file that is refused here
  std::string reason;    ///< a clause that says why it was not read; empty on success
};

/// Returns false where `path` does not exist, and true where it exists or the system does not say, as in a folder that
/// this process may not enter. Reading the file then reports the reason.
[[nodiscard]] bool may_exist(const std::string& path);

/// Appends a whole regular file to `content`. Time and memory are bounded: a FIFO, a device, a folder and a file of
/// more than `most` bytes are refused, even if it grows while it is read. Only a file system that does not respond can
/// block this function.
[[nodiscard]] FileReading read_small_file(const std::string& path, std::size_t most, std::string& content);

/// Reads a file that was opened for reading with O_NONBLOCK, like the function above. The descriptor stays open.
[[nodiscard]] FileReading read_small_file(int descriptor, std::size_t most, std::string& content);

/// Returns a whole file, such as one of /proc; empty where read_small_file() refuses it.
[[nodiscard]] std::string content_of(const std::filesystem::path& path, std::size_t most = std::size_t{1} << 16);

/// Returns the first line of a file, such as one of /sys, without surrounding blanks.
[[nodiscard]] std::string first_line_of(const std::filesystem::path& path);

/// Returns the paths of the entries of a folder, sorted. Where it cannot be listed completely, `error` says why, and
/// the entries read so far are returned.
[[nodiscard]] std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder,
                                                            std::error_code& error);
[[nodiscard]] std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

}  // namespace rollcall
