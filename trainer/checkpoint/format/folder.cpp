#include "trainer/checkpoint/format/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <span>

#include "runtime/base/owned_file.h"
#include "runtime/base/small_file.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::format {
namespace {

namespace fs = std::filesystem;

Result<std::vector<ListedCheckpoint>> list_of_kind(const std::string& folder, NameKind kind) {
  std::vector<ListedCheckpoint> found;
  std::error_code error;
  for (const fs::path& path : entries_of(folder, error)) {
    const auto name = parse_file_name(path.filename().string());
    if (name && name->kind == kind) {
      found.push_back({name->step, path.string()});
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail("checkpoint", folder, "cannot be listed: " + errno_text(error.value()),
                "checking that file system, then submitting again", ErrorKind::InputOutput);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

/// Renames a damaged checkpoint and returns a description for people.
std::string set_aside(const ListedCheckpoint& checkpoint, const Error& error) {
  const std::string aside = checkpoint.path + std::string(kDamagedEnding);
  const bool renamed = std::rename(checkpoint.path.c_str(), aside.c_str()) == 0;
  return fmt::format("{} {}; {}", checkpoint.path, error.reason,
                     renamed ? "it was renamed to " + file_name(aside) : "it cannot be renamed: " + errno_text(errno));
}

/// Returns the path that rank 0 tries next; empty if it has none. Collective.
Result<std::string> share_path(const std::string& path, RankGroup& group) {
  const auto view = std::as_bytes(std::span(path));
  std::vector<std::byte> bytes(view.begin(), view.end());
  RETURN_IF_ERROR(group.broadcast(bytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<void> open_and_use(const std::string& path, const UseCheckpoint& use) {
  const auto reader = CheckpointReader::open(path, Owner::ThisUser);
  return reader ? use(*reader) : reader.error();
}

/// Lets rank 0 check a file that a rank has found damaged: the memory or file system of one node may be at fault, and a
/// sound file must not be set aside.
Result<void> confirm_damage(const std::string& path, const Result<void>& mine, std::uint32_t rank,
                            const Error& reported) {
  if (rank != 0 || (!mine && mine.error().kind == ErrorKind::BadData) || !verify_file(path, VerifyLevel::Full)) {
    return {};
  }
  return fail("--resume", path,
              fmt::format("rank 0 reads it without errors, but another rank reports that it {}", reported.reason),
              "checking the nodes of this job, since one of them reads wrong data, or running the job on other nodes",
              ErrorKind::InputOutput);
}

/// Returns whether a file is this user's: files of others in a shared folder are neither counted nor removed.
bool is_own_file(const std::string& path) {
  struct stat status {};
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::lstat(path.c_str(), &status) == 0 && is_own(status, folder_of(path));
}

/// Points best.h5 to a step; without one, removes a dangling link.
void point_best_to(const std::string& folder, std::optional<std::int64_t> best_step) {
  const std::string link = (fs::path(folder) / "best.h5").string();
  if (!best_step) {
    std::error_code error;
    if (fs::is_symlink(link, error) && !fs::exists(link, error) && !error) {
      ::unlink(link.c_str());
    }
    return;
  }
  const std::string name = checkpoint_name(*best_step);
  // Uses the temporary name of its target, so that a link left by a crash is removed like a temporary file.
  const std::string temporary = temporary_name((fs::path(folder) / name).string());
  ::unlink(temporary.c_str());
  if (::symlink(name.c_str(), temporary.c_str()) == 0 && std::rename(temporary.c_str(), link.c_str()) != 0) {
    ::unlink(temporary.c_str());
  }
}

/// Removes slashes at the end, with which lstat(2) would follow a link.
std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  return path;
}

/// The block size of quota limits; dqb_curspace is in bytes (quotactl(2)).
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
              fmt::format("a checkpoint takes {}, but {} leaves {}", mebibytes(bytes), what, mebibytes(left)),
              "freeing space or quota there, lowering --keep-last, or setting --checkpoint-dir to another file system",
              ErrorKind::InputOutput);
}

}  // namespace

Result<std::vector<ListedCheckpoint>> list_checkpoints(const std::string& folder) {
  return list_of_kind(folder, NameKind::Checkpoint);
}

Result<std::vector<ListedCheckpoint>> list_own_checkpoints(const std::string& folder) {
  ASSIGN_OR_RETURN(const auto listed, list_checkpoints(folder));
  std::vector<ListedCheckpoint> own;
  for (const ListedCheckpoint& checkpoint : listed) {
    struct stat status {};
    if (::lstat(checkpoint.path.c_str(), &status) == 0) {
      if (is_own(status, folder_of(checkpoint.path))) {
        own.push_back(checkpoint);
      }
    } else if (errno != ENOENT) {  // its owner is unknown; using an older one instead could discard good work
      return fail("checkpoint", checkpoint.path, "cannot be examined: " + errno_text(errno),
                  "checking that file system, then submitting again", ErrorKind::InputOutput);
    }
  }
  return own;
}

Result<void> prepare_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) {
    return fail("--checkpoint-dir", folder,
                "must be a folder that you may list and write to: " + errno_text(error.value()),
                what_to_try(error.value(), "naming another folder"), ErrorKind::CannotCreate);
  }
  return {};
}

std::string exposure(const std::string& path) {
  const std::string name = without_slashes(path);
  struct stat status {};
  if (::lstat(name.c_str(), &status) == 0 && S_ISLNK(status.st_mode) && !is_own(status, folder_of(name))) {
    return fmt::format("user {} owns the link", status.st_uid);
  }
  std::error_code ignored;
  const fs::path resolved = fs::canonical(path, ignored);  // of a link, the folder of its target counts
  if (::stat(path.c_str(), &status) != 0) {
    return "";
  }
  const std::string writers = other_writers(status);
  if (!writers.empty()) {
    return writers + " may write to it";
  }
  const std::string folder = S_ISDIR(status.st_mode) ? path : folder_of(path);
  if (!is_own(status, folder)) {
    return fmt::format("user {} owns it", status.st_uid);
  }
  const bool replaceable = ::stat(resolved.parent_path().c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0 &&
                           (status.st_mode & S_ISVTX) == 0;
  return replaceable ? fmt::format("everybody may rename it (permissions of {})", resolved.parent_path().string()) : "";
}

Result<std::optional<UsedCheckpoint>> use_latest(const std::string& folder, RankGroup& group, const UseCheckpoint& use,
                                                 bool passes_over_others) {
  const auto list = passes_over_others ? list_own_checkpoints : list_checkpoints;
  Result<std::vector<ListedCheckpoint>> listing = group.rank() == 0 ? list(folder) : std::vector<ListedCheckpoint>();
  RETURN_IF_ERROR(agree(group, listing ? Result<void>() : listing.error()));
  const std::vector<ListedCheckpoint> listed = *std::move(listing);
  std::vector<std::string> warnings;
  for (std::size_t next = 0;; ++next) {
    ASSIGN_OR_RETURN(const auto path, share_path(next < listed.size() ? listed[next].path : "", group));
    if (path.empty()) {
      break;
    }
    const Result<void> mine = open_and_use(path, use);
    const Result<void> used = agree(group, mine);
    if (used) {
      if (const std::string known = group.rank() == 0 ? exposure(path) : ""; !known.empty()) {
        warnings.push_back(fmt::format("{}: {} and may have changed what was loaded; try chmod go-w", path, known));
      }
      return std::optional(UsedCheckpoint{path, std::move(warnings)});
    }
    if (used.error().kind != ErrorKind::BadData) {
      return used.error();
    }
    RETURN_IF_ERROR(agree(group, confirm_damage(path, mine, group.rank(), used.error())));
    if (group.rank() == 0) {
      warnings.push_back(set_aside(listed[next], used.error()));
    }
  }
  const auto aside = list_of_kind(folder, NameKind::SetAside);
  const std::size_t damaged = group.rank() == 0 && aside ? aside->size() : 0;
  Result<void> none_damaged;
  if (damaged > 0 || !warnings.empty()) {
    none_damaged = fail("--resume", folder,
                        fmt::format("holds only damaged checkpoints ({} of them)", std::max(damaged, warnings.size())),
                        "--resume=never to start from the beginning, or setting --checkpoint-dir to another folder",
                        ErrorKind::BadData);
  }
  RETURN_IF_ERROR(agree(group, none_damaged));
  return std::optional<UsedCheckpoint>();
}

void remove_stale_temporaries(const std::string& folder) {
  const auto temporaries = list_of_kind(folder, NameKind::Temporary);
  for (const ListedCheckpoint& temporary : temporaries ? *temporaries : std::vector<ListedCheckpoint>()) {
    const auto name = parse_file_name(file_name(temporary.path));
    if (name && writer_is_dead(*name, temporary.path)) {
      ::unlink(temporary.path.c_str());
    }
  }
}

Result<void> supersede(const std::string& folder, std::int64_t last) {
  ASSIGN_OR_RETURN(const auto listed, list_checkpoints(folder));
  const fs::path best = fs::path(folder) / "best.h5";
  std::error_code ignored;
  const fs::path meant = fs::read_symlink(best, ignored);
  for (const ListedCheckpoint& checkpoint : listed) {
    if (checkpoint.step <= last || !is_own_file(checkpoint.path)) {
      continue;
    }
    if (meant == fs::path(file_name(checkpoint.path))) {
      ::unlink(best.c_str());
    }
    std::string aside = checkpoint.path + std::string(kSupersededEnding);
    for (int number = 2; ::access(aside.c_str(), F_OK) == 0; ++number) {
      aside = fmt::format("{}{}-{}", checkpoint.path, kSupersededEnding, number);
    }
    if (std::rename(checkpoint.path.c_str(), aside.c_str()) != 0) {
      return fail(
          "checkpoint", checkpoint.path,
          "belongs to an abandoned training and cannot be renamed to " + file_name(aside) + ": " + errno_text(errno),
          what_to_try(errno, "moving it elsewhere, or setting --checkpoint-dir to another folder"),
          ErrorKind::InputOutput);
    }
  }
  return {};
}

void tidy_folder(const std::string& folder, std::int64_t step, std::int64_t best_step, const Retention& retention) {
  if (!supersede(folder, step)) {
    return;  // do not remove what may be another training's
  }
  Retention with_best = retention;
  with_best.best_steps.insert(with_best.best_steps.begin(), best_step);
  const auto listed = list_checkpoints(folder);
  if (!listed) {
    return;  // an incomplete list is not evaluated
  }
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> own;
  std::error_code ignored;
  for (const ListedCheckpoint& checkpoint : *listed) {
    if (checkpoint.step <= step && fs::is_regular_file(checkpoint.path, ignored)) {
      steps.push_back(checkpoint.step);
    }
    if (checkpoint.step <= step && is_own_file(checkpoint.path)) {
      own.push_back(checkpoint.step);
    }
  }
  const std::vector<std::int64_t> best =
      best_of(steps, with_best);  // it may belong to the user from whom this run resumes
  point_best_to(folder, best.empty() ? std::nullopt : std::optional(best.front()));
  for (const std::int64_t old : superfluous_steps(std::move(own), with_best)) {
    ::unlink((fs::path(folder) / checkpoint_name(old)).c_str());
  }
  remove_stale_temporaries(folder);
  static_cast<void>(storage::sync_folder_of(fs::path(folder) / checkpoint_name(step)));
}

std::optional<FreeSpace> free_space_at(const std::string& path) {
  const storage::File folder(path, O_RDONLY | O_DIRECTORY);
  struct statvfs status {};
  if (!folder || ::fstatvfs(folder.descriptor(), &status) != 0) {
    return std::nullopt;
  }
  return FreeSpace{std::uint64_t{status.f_bavail} * status.f_frsize, left_by_quota(folder.descriptor())};
}

Result<void> check_free_space(const std::string& path, const FreeSpace& space, std::uint64_t bytes) {
  if (space.of_file_system < bytes) {
    return too_little(path, "the file system", space.of_file_system, bytes);
  }
  if (space.of_quota && *space.of_quota < bytes) {
    return too_little(path, "your quota", *space.of_quota, bytes);
  }
  return {};
}

}  // namespace rollcall::checkpoint::format
