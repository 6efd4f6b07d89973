#include "trainer/checkpoint/exchange/input_file.h"

#include <fcntl.h>

#include <cerrno>

namespace rollcall::checkpoint::exchange {
namespace {

constexpr const char* kSetting = "state dict";

}  // namespace

Result<InputFile> InputFile::open(const std::string& path) {
  storage::File file(path, O_RDONLY);
  const auto size = file ? file.regular_size() : std::nullopt;
  if (!size) {
    return fail(kSetting, path, "cannot be read: " + errno_text(errno), "naming an existing file", ExitCode::NoInput);
  }
  return InputFile(path, std::move(file), *size);
}

Result<void> InputFile::read(std::span<std::byte> bytes, std::uint64_t offset) const {
  if (offset > size_ || bytes.size() > size_ - offset) {
    return unusable("is cut short");
  }
  const auto count = file_.read_at(bytes, offset);
  if (!count) {
    return fail(kSetting, path_, "cannot be read: " + errno_text(errno), "again, or a copy elsewhere",
                ExitCode::InputOutput);
  }
  return *count == bytes.size() ? Result<void>() : unusable("became shorter while it was read");
}

Result<std::unique_ptr<std::byte[]>> InputFile::read(std::uint64_t count, std::uint64_t offset) const {
  if (count > size_) {
    return unusable("is cut short");
  }
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(count);
  if (auto done = read(std::span(bytes.get(), count), offset); !done) {
    return done.error();
  }
  return bytes;
}

Error InputFile::unusable(std::string reason, std::string action) const {
  return fail(kSetting, path_, std::move(reason), std::move(action), ExitCode::BadData);
}

}  // namespace rollcall::checkpoint::exchange
