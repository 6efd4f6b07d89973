#include "runtime/base/small_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "runtime/base/result.h"
#include "runtime/base/text.h"

namespace rollcall {
namespace {

FileReading refused(int error_number) { return {error_number, errno_text(error_number)}; }

FileReading too_long(std::size_t most) { return {0, fmt::format("is longer than {} bytes", most)}; }

/// Reads an open file, which may grow meanwhile.
FileReading read_to_end(int file, std::size_t most, std::string& content) {
  std::array<char, 4096> block;
  std::size_t length = 0;
  for (;;) {
    const ssize_t got = ::read(file, block.data(), block.size());
    if (got == 0) {
      return {};
    }
    if (got < 0 && errno != EINTR) {
      return refused(errno);
    }
    const std::size_t count = got < 0 ? 0 : static_cast<std::size_t>(got);
    length += count;
    if (length > most) {
      return too_long(most);
    }
    content.append(block.data(), count);
  }
}

}  // namespace

bool may_exist(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

FileReading read_small_file(const std::string& path, std::size_t most, std::string& content) {
  // O_NONBLOCK: opening a FIFO would wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (file < 0) {
    return refused(errno);
  }
  FileReading reading = read_small_file(file, most, content);
  ::close(file);
  return reading;
}

FileReading read_small_file(int descriptor, std::size_t most, std::string& content) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    return refused(errno);
  }
  if (S_ISDIR(status.st_mode)) {
    return refused(EISDIR);
  }
  return S_ISREG(status.st_mode) ? read_to_end(descriptor, most, content) : FileReading{0, "is not a regular file"};
}

std::string content_of(const std::filesystem::path& path, std::size_t most) {
  std::string content;
  return read_small_file(path.string(), most, content).reason.empty() ? content : "";
}

std::string first_line_of(const std::filesystem::path& path) {
  const std::string content = content_of(path);
  return std::string(trim(content.substr(0, content.find('\n'))));
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder, std::error_code& error) {
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    found.push_back(entry->path());
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::error_code ignored;
  return entries_of(folder, ignored);
}

}  // namespace rollcall
