#pragma once

#include <cstddef>
#include <string>

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

}  // namespace rollcall
