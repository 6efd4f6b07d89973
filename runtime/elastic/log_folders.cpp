#include "runtime/elastic/log_folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/own_file.h"

namespace rollcall::elastic {
namespace {

namespace fs = std::filesystem;

Error cannot_make(const std::string& path, const std::string& reason) {
  Error error = fail("--log-dir", path, "cannot be made: " + reason, "a folder that you can write, with room in it",
                     ExitCode::CannotCreate);
  error.of_this_node = true;
  return error;
}

/// A new folder of a name that begins so; only this user can enter it.
Result<fs::path> new_folder(const fs::path& beginning) {
  std::string name = beginning.string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    return cannot_make(beginning.string(), errno_text(errno));
  }
  return fs::path(name);
}

}  // namespace

Result<int> open_log(const std::string& path) {
  const OpenedOutput opened = open_output(path, O_WRONLY | O_APPEND);
  return opened.descriptor >= 0 ? Result<int>(opened.descriptor) : cannot_make(path, opened.reason);
}

Result<LogFolders> LogFolders::create(const LogRequest& request, const std::string& run_id,
                                      const std::string& temporary) {
  if (request.folder == "/dev/null") {
    return LogFolders(request, {}, {});
  }
  fs::path base = request.folder;
  fs::path own_temporary;
  std::error_code error;
  if (base.empty()) {
    Result<fs::path> made = new_folder(fs::path(temporary) / "rollcall_run_");
    if (!made) {
      return made.error();
    }
    base = *made;
    own_temporary = request.redirects.any() || request.tee.any() ? fs::path() : base;
  } else if (fs::create_directories(base, error); error) {
    return cannot_make(base, error.message());
  }
  std::string name = run_id;
  std::ranges::replace(name, '/', '_');
  Result<fs::path> folder = new_folder(base / (name + "_"));
  return folder ? Result<LogFolders>(LogFolders(request, *folder, own_temporary)) : folder.error();
}

LogFolders::LogFolders(LogFolders&& other) noexcept
    : request_(std::move(other.request_)),
      run_folder_(std::move(other.run_folder_)),
      temporary_(std::exchange(other.temporary_, {})),
      attempts_(other.attempts_) {}

LogFolders::~LogFolders() {
  if (!temporary_.empty()) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }
}

Result<AttemptFiles> LogFolders::next_attempt(std::uint32_t workers) {
  AttemptFiles files;
  files.workers.resize(workers);
  if (run_folder_.empty()) {
    return files;
  }
  const fs::path attempt = run_folder_ / fmt::format("attempt_{}", attempts_++);
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    const fs::path folder = attempt / std::to_string(rank);
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      return cannot_make(folder, error.message());
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
