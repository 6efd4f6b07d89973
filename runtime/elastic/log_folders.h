#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/elastic/launch_request.h"

namespace rollcall::elastic {

/// The files of one worker; an empty path means no file.
struct WorkerFiles {
  std::string error;  ///< written by torch's @record
  std::string out;
  std::string err;
};

/// The files of all workers of one attempt on this node.
struct AttemptFiles {
  std::vector<WorkerFiles> workers;  ///< by local rank
  std::string filtered_out;
  std::string filtered_err;
};

/// Opens a log for appending, creating it where needed; the caller closes the descriptor. Links are not followed, since
/// anyone with write access to the folder could place one (rollcall::open_output()). Errors (CannotCreate): it cannot
/// be created, or is not a regular file of this user.
[[nodiscard]] Result<int> open_log(const std::string& path);

/// torchrun's layout: LOG_DIR/<run id>_XXXXXXXX/attempt_N/<local rank>/{stdout.log,stderr.log,error.json}. N counts the
/// generations of this agent, so that none overwrites another's files. Without --log-dir the folder is created in
/// TMPDIR, and removed at the end where it holds only error files. Movable.
class LogFolders {
 public:
  /// Creates the run's folder. Errors (CannotCreate): it cannot be created.
  [[nodiscard]] static Result<LogFolders> create(const LogRequest& request, const std::string& run_id,
                                                 const std::string& temporary);

  LogFolders(LogFolders&& other) noexcept;
  LogFolders& operator=(LogFolders&&) = delete;
  ~LogFolders();

  /// Creates the folders of the next attempt; creates a new run folder first where the earlier one was removed or
  /// replaced. Errors (CannotCreate): they cannot be created, for instance on a full disk.
  [[nodiscard]] Result<AttemptFiles> next_attempt(std::uint32_t workers);

  [[nodiscard]] const std::filesystem::path& run_folder() const { return run_folder_; }

 private:
  LogFolders(const LogRequest& request, std::string run_id, std::string above)
      : request_(request), run_id_(std::move(run_id)), above_(std::move(above)) {}
  [[nodiscard]] Result<void> make();
  [[nodiscard]] bool is_there() const;
  void let_go();

  LogRequest request_;
  std::string run_id_;
  std::string above_;                 ///< where temporary folders are created
  std::filesystem::path run_folder_;  ///< empty: no files are written (--log-dir=/dev/null)
  std::filesystem::path temporary_;   ///< removed at the end; empty: nothing is removed
  std::vector<int> held_;             ///< open descriptors of the created folders, the run's last
  std::uint32_t attempts_ = 0;
};

}  // namespace rollcall::elastic
