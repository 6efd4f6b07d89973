#include "trainer/data/image/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

namespace rollcall::data {
namespace {

class Descriptor {
 public:
  // O_NONBLOCK: opening a named pipe would otherwise wait for a writer for ever.
  explicit Descriptor(const std::string& path) : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

Error unreadable(const std::string& path, int error_number, ExitCode code) {
  return fail("--data", path, "cannot be read: " + errno_text(error_number), "checking the file and its permissions",
              code);
}

}  // namespace

Result<std::span<const std::byte>> read_file(const std::string& path, std::vector<std::byte>& buffer) {
  const Descriptor file(path);
  struct stat facts {};
  if (file.number() < 0 || ::fstat(file.number(), &facts) != 0) {
    return unreadable(path, errno, ExitCode::NoInput);
  }
  if (!S_ISREG(facts.st_mode)) {
    return fail("--data", path, "is not a regular file", "removing it from the data set", ExitCode::NoInput);
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (buffer.size() < size) {
    buffer.resize(size);
  }
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file.number(), buffer.data() + done, size - done);
    if (count < 0 && errno != EINTR) {
      return unreadable(path, errno, ExitCode::InputOutput);
    }
    if (count == 0) {
      break;  // the file became shorter meanwhile: the decoder finds it truncated
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return std::span<const std::byte>(buffer.data(), done);
}

}  // namespace rollcall::data
