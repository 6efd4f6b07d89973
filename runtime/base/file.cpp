#include "runtime/base/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace rollcall {

File::File(const std::string& path, int flags, mode_t mode)
    : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}

File::~File() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

std::optional<std::uint64_t> File::regular_size() const {
  struct stat facts {};
  if (::fstat(descriptor_, &facts) != 0) {
    return std::nullopt;
  }
  if (!S_ISREG(facts.st_mode)) {
    errno = S_ISDIR(facts.st_mode) ? EISDIR : EINVAL;
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(facts.st_size);
}

std::optional<std::size_t> File::read_at(std::span<std::byte> bytes, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pread(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno != EINTR) {
      return std::nullopt;
    }
    if (count == 0) {
      break;
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return done;
}

bool File::write_at(std::span<const std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      errno = count < 0 ? errno : ENOSPC;
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return true;
}

bool File::sync(Cached cached) const {
  if (::fsync(descriptor_) != 0) {
    return false;
  }
  if (cached == Cached::Drop) {
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  }
  return true;
}

bool File::cached_by_each_host() const {
  constexpr std::array<std::uint32_t, 8> kTypes{NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
                                                V9FS_MAGIC,      AFS_SUPER_MAGIC, AFS_FS_MAGIC,     FUSE_SUPER_MAGIC};
  struct statfs system {};
  return ::fstatfs(descriptor_, &system) == 0 &&
         std::ranges::find(kTypes, static_cast<std::uint32_t>(system.f_type)) != kTypes.end();
}

std::string_view write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      errno = written < 0 ? errno : ENOSPC;
      return text;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return text;
}

}  // namespace rollcall
