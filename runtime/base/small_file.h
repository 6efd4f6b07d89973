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

/// Appends the whole of a regular file to `content`. Whatever the name stands for, it costs neither time nor memory
/// without bound: a FIFO, a device or a folder is refused, and so is what is longer than `most` bytes, also where it
/// grows while it is read. Only a file system that does not answer can hold this up.
[[nodiscard]] FileReading read_small_file(const std::string& path, std::size_t most, std::string& content);

}  // namespace rollcall
