#include "trainer/checkpoint/format/room.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/quota.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "trainer/storage/file.h"

namespace rollcall::checkpoint::format {
namespace {

/// dqb_curspace is in bytes, the limits in blocks of this size (quotactl(2)).
constexpr std::uint64_t kQuotaBlock = 1024;

std::optional<std::uint64_t> left_by_quota([[maybe_unused]] int folder) {
#ifdef SYS_quotactl_fd
  struct dqblk quota {};
  if (::syscall(SYS_quotactl_fd, folder, QCMD(Q_GETQUOTA, USRQUOTA), ::geteuid(), &quota) != 0) {
    return std::nullopt;
  }
  const std::uint64_t limit = quota.dqb_bhardlimit * kQuotaBlock;
  const bool known = (quota.dqb_valid & QIF_BLIMITS) != 0 && (quota.dqb_valid & QIF_SPACE) != 0 && limit != 0;
  return known ? std::optional(limit - std::min<std::uint64_t>(limit, quota.dqb_curspace)) : std::nullopt;
#else
  return std::nullopt;
#endif
}

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1U << 20));
}

Error too_little(const std::string& path, const std::string& what, std::uint64_t left, std::uint64_t bytes) {
  return fail("--checkpoint-dir", path,
              fmt::format("a checkpoint takes {}, and {} leaves {}", mebibytes(bytes), what, mebibytes(left)),
              "freeing space or quota there, a smaller --keep-last, or another --checkpoint-dir",
              ExitCode::InputOutput);
}

}  // namespace

std::optional<Room> room_at(const std::string& path) {
  const storage::File folder(path, O_RDONLY | O_DIRECTORY);
  struct statvfs status {};
  if (!folder || ::fstatvfs(folder.descriptor(), &status) != 0) {
    return std::nullopt;
  }
  return Room{std::uint64_t{status.f_bavail} * status.f_frsize, left_by_quota(folder.descriptor())};
}

Result<void> check_room(const std::string& path, const Room& room, std::uint64_t bytes) {
  if (room.free < bytes) {
    return too_little(path, "the file system", room.free, bytes);
  }
  if (room.quota && *room.quota < bytes) {
    return too_little(path, "your quota", *room.quota, bytes);
  }
  return {};
}

}  // namespace rollcall::checkpoint::format
