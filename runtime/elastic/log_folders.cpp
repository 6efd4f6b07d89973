#include "runtime/elastic/log_folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/owned_file.h"
#include "runtime/base/small_file.h"
#include "runtime/base/this_process.h"
#include "runtime/elastic/process.h"

namespace rollcall::elastic {
namespace {

namespace fs = std::filesystem;

Error cannot_make(const std::string& path, const std::string& reason, int error_number) {
  Error error = fail("--log-dir", path, "cannot be created: " + reason,
                     what_to_try(error_number, "giving another folder"), ErrorKind::CannotCreate);
  error.of_this_node = true;
  return error;
}

/// Creates a folder whose name begins like this; only this user can enter it.
Result<fs::path> new_folder(const fs::path& beginning) {
  std::string name = beginning.string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    return cannot_make(beginning.string(), errno_text(errno), errno);
  }
  return fs::path(name);
}

int open_folder(const fs::path& folder) {
  return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/// Locks the folder, so that systemd-tmpfiles and other runs leave it alone. Waits for a process that is just checking
/// it. The caller closes the descriptor.
int hold(const fs::path& folder) {
  const int descriptor = open_folder(folder);
  (void)flock(descriptor, LOCK_SH);  // some file systems have no locks
  return descriptor;
}

/// Returns whether `folder` is still the one that was opened.
bool is_at(const fs::path& folder, int descriptor) {
  struct stat own {};
  struct stat named {};
  return fstat(descriptor, &own) == 0 && lstat(folder.c_str(), &named) == 0 && own.st_dev == named.st_dev &&
         own.st_ino == named.st_ino;
}

struct HeldFolder {
  fs::path path;
  int descriptor = -1;
};

/// Creates and locks a folder. Creates another one where another run has mistaken it for a leftover in between.
Result<HeldFolder> held_folder(const fs::path& beginning) {
  while (true) {
    ASSIGN_OR_RETURN(fs::path made, new_folder(beginning));
    const int descriptor = hold(made);
    std::error_code ignored;
    if (descriptor < 0 ? fs::exists(made, ignored) : is_at(made, descriptor)) {
      return HeldFolder{std::move(made), descriptor};
    }
    close(descriptor);
  }
}

/// Returns the beginning of the names of temporary folders. It contains the host, because a file system shared by hosts
/// may not share its locks.
std::string temporary_beginning() { return "rollcall_run_tmp_" + this_host_name() + "_"; }

/// Removes what killed agents of this user and host left in `above`. Live agents hold a lock on their folders.
void remove_leftovers(const fs::path& above) {
  std::error_code ignored;
  for (const fs::path& path : rollcall::entries_of(above)) {
    if (!path.filename().string().starts_with(temporary_beginning())) {
      continue;
    }
    const int folder = open_folder(path);
    struct stat status {};
    if (folder >= 0 && fstat(folder, &status) == 0 && status.st_uid == geteuid() &&
        flock(folder, LOCK_EX | LOCK_NB) == 0 && is_at(path, folder)) {
      fs::remove_all(path, ignored);
    }
    close(folder);
  }
}

}  // namespace

Result<int> open_log(const std::string& path) {
  const OpenedOutput opened = open_output(path, O_WRONLY | O_APPEND);
  return opened.descriptor >= 0 ? Result<int>(opened.descriptor)
                                : cannot_make(path, opened.reason, opened.error_number);
}

Result<LogFolders> LogFolders::create(const LogRequest& request, const std::string& run_id,
                                      const std::string& temporary) {
  LogFolders folders(request, run_id, temporary);
  if (request.folder.empty()) {
    remove_leftovers(temporary);
  }
  Result<void> made = folders.make();
  return made ? Result<LogFolders>(std::move(folders)) : made.error();
}

Result<void> LogFolders::make() {
  if (request_.folder == "/dev/null") {
    return {};
  }
  fs::path base = request_.folder;
  std::error_code error;
  if (base.empty()) {
    const bool is_temporary = !request_.redirects.any() && !request_.tee.any();
    ASSIGN_OR_RETURN(HeldFolder made,
                     held_folder(fs::path(above_) / (is_temporary ? temporary_beginning() : "rollcall_run_")));
    base = made.path;
    temporary_ = is_temporary ? base : fs::path();
    held_.push_back(made.descriptor);
  } else if (fs::create_directories(base, error); error) {
    return cannot_make(base, error.message(), error.value());
  }
  std::string name = run_id_;
  std::ranges::replace(name, '/', '_');
  ASSIGN_OR_RETURN(fs::path folder, new_folder(base / (name + "_")));
  run_folder_ = folder;
  held_.push_back(hold(run_folder_));
  return {};
}

bool LogFolders::is_there() const { return !held_.empty() && is_at(run_folder_, held_.back()); }

void LogFolders::let_go() {
  if (!temporary_.empty() && is_there()) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  } else if (attempts_ == 0 && is_there()) {  // no worker was started: the folders are empty
    std::error_code ignored;
    fs::remove(run_folder_, ignored);
    fs::remove(request_.folder.empty() ? run_folder_.parent_path() : fs::path(), ignored);
  }
  for (const int descriptor : held_) {
    close(descriptor);
  }
  held_.clear();
}

LogFolders::LogFolders(LogFolders&& other) noexcept
    : request_(std::move(other.request_)),
      run_id_(std::move(other.run_id_)),
      above_(std::move(other.above_)),
      run_folder_(std::move(other.run_folder_)),
      temporary_(std::exchange(other.temporary_, {})),
      held_(std::exchange(other.held_, {})),
      attempts_(other.attempts_) {}

LogFolders::~LogFolders() { let_go(); }

Result<AttemptFiles> LogFolders::next_attempt(std::uint32_t workers) {
  AttemptFiles files;
  files.workers.resize(workers);
  if (run_folder_.empty()) {
    return files;
  }
  if (!is_there()) {  // a cleaner removed the folder, and its name may belong to someone else now
    let_go();
    RETURN_IF_ERROR(make());
  }
  const fs::path attempt = run_folder_ / fmt::format("attempt_{}", attempts_++);
  std::error_code error;
  fs::create_directory(attempt, error);  // never its parents
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const fs::path folder = attempt / std::to_string(rank);
    if (!error) {
      fs::create_directory(folder, error);
    }
    if (error) {
      return cannot_make(folder, error.message(), error.value());
    }
    const Streams redirected = request_.redirects.of(rank);
    const Streams teed = request_.tee.of(rank);
    files.workers[rank].error = folder / "error.json";
    files.workers[rank].out = redirected.out || teed.out ? (folder / "stdout.log").string() : "";
    files.workers[rank].err = redirected.err || teed.err ? (folder / "stderr.log").string() : "";
  }
  files.filtered_out = request_.out_filters.empty() ? "" : (attempt / "filtered_stdout.log").string();
  files.filtered_err = request_.err_filters.empty() ? "" : (attempt / "filtered_stderr.log").string();
  return files;
}

}  // namespace rollcall::elastic
