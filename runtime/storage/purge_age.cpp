#include "runtime/storage/purge_age.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>

#include "runtime/base/text.h"
#include "runtime/settings/values.h"

namespace rollcall::storage {
namespace {

constexpr double kDay = 86400;

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

/// Opens a folder without changing its access time, which the kernel permits only to its owner.
Folder open_folder(const std::string& path, bool follow) {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW);
  int descriptor = ::open(path.c_str(), flags | O_NOATIME);
  if (descriptor < 0 && errno == EPERM) {
    descriptor = ::open(path.c_str(), flags);
  }
  if (descriptor < 0) {
    return {nullptr, ::closedir};
  }
  DIR* const folder = ::fdopendir(descriptor);
  if (folder == nullptr) {
    ::close(descriptor);
  }
  return {folder, ::closedir};
}

/// This many entries may take a second, whatever the time limit is: on a busy node a process may wait longer for a CPU.
constexpr std::size_t kFew = 64;
constexpr std::chrono::seconds kTimeOfFew{1};

/// One scan; run() fills `found_`.
class Look {
 public:
  Look(std::uint32_t purge_days, PurgeLimits limits) : purge_days_(purge_days), limits_(limits) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    now_ = seconds(now);
  }

  Result<PurgeAge> run(const std::string& top) {
    std::deque<std::string> folders{top};
    for (bool first = true; !folders.empty() && !at_limit(); first = false) {
      const std::string path = std::move(folders.front());
      folders.pop_front();
      const Folder folder = open_folder(path, first);
      if (!folder && first) {
        return fail("scratch.folder", top, errno_text(errno), "naming a folder that you can read", ErrorKind::NoInput);
      }
      if (!folder) {
        found_.complete = false;
        continue;
      }
      read(folder.get(), path, folders);
    }
    found_.complete = found_.complete && folders.empty() && !at_limit();
    return found_;
  }

 private:
  [[nodiscard]] bool at_limit() const {
    const auto time = entries_ < kFew ? std::max<std::chrono::milliseconds>(limits_.time, kTimeOfFew) : limits_.time;
    return entries_ >= limits_.entries || std::chrono::steady_clock::now() >= begun_ + time;
  }

  void read(DIR* folder, const std::string& path, std::deque<std::string>& folders) {
    struct stat own {};
    if (::fstat(::dirfd(folder), &own) != 0) {
      return;
    }
    while (const dirent* const entry = at_limit() ? nullptr : ::readdir(folder)) {
      ++entries_;
      const std::string_view name = entry->d_name;
      struct stat status {};
      if (name == "." || name == ".." || ::fstatat(::dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        continue;
      }
      std::string full = path + "/" + entry->d_name;
      if (S_ISDIR(status.st_mode) && status.st_dev == own.st_dev) {
        folders.push_back(std::move(full));
      } else if (S_ISREG(status.st_mode)) {
        note(std::move(full), status);
      }
    }
  }

  void note(std::string path, const struct stat& status) {
    ++found_.files;
    const double left = days_until_purge(now_, seconds(status.st_mtim), seconds(status.st_atim), purge_days_);
    if (!found_.days_left || left < *found_.days_left) {
      found_.days_left = left;
      found_.oldest = std::move(path);
    }
  }

  std::uint32_t purge_days_;
  PurgeLimits limits_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  double now_ = 0;
  std::size_t entries_ = 0;
  PurgeAge found_;
};

std::string when(double days_left) {
  return days_left < 0 ? "may be deleted at any time" : "is deleted in " + counted(static_cast<int>(days_left), "day");
}

}  // namespace

double days_until_purge(double now, double changed, double read, std::uint32_t purge_days) {
  return purge_days - (now - std::max(changed, read)) / kDay;
}

Result<PurgeAge> purge_age(const std::string& folder, std::uint32_t purge_days, PurgeLimits limits) {
  return Look(purge_days, limits).run(folder);
}

std::optional<std::string> purge_warning(const settings::LaunchSettings& settings, const Environment& environment,
                                         PurgeLimits limits) {
  const std::uint32_t days = settings.purge_days;
  const Result<std::string> folder = settings::expand_path(settings.scratch_folder, environment, "scratch.folder");
  if (days == 0 || !folder || folder->empty()) {
    return std::nullopt;
  }
  const Result<PurgeAge> age = purge_age(*folder, days, limits);
  if (!age || !age->days_left || *age->days_left > settings.warn_days) {
    return std::nullopt;
  }
  return fmt::format("scratch.purge-days: {}: {} {}: this site deletes files that were neither changed nor read for {}",
                     days, age->oldest, when(*age->days_left), counted(days, "day"));
}

}  // namespace rollcall::storage
