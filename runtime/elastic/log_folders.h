#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/elastic/launch_request.h"

namespace rollcall::elastic {

/// A worker's files; an empty path: there is none.
struct WorkerFiles {
  std::string error;  ///< torch's @record writes there
  std::string out;
  std::string err;
};

/// The files of all workers of one attempt on this node.
struct AttemptFiles {
  std::vector<WorkerFiles> workers;  ///< by local rank
  std::string filtered_out;
  std::string filtered_err;
};

/// Opens a log for appending and creates it; the caller closes the descriptor. Who may write to the folder of the logs
/// can put links there, which are not followed (rollcall::open_output()). Errors (CannotCreate): it cannot be made, or
/// is no regular file of this user's.
[[nodiscard]] Result<int> open_log(const std::string& path);

/// torchrun's layout: LOG_DIR/<run id>_XXXXXXXX/attempt_N/<local rank>/{stdout.log,stderr.log,error.json}. N counts the
/// generations that this agent was in, so that none overwrites another's. Without --log-dir it is below a folder in
/// TMPDIR, which is removed in the end where nothing but error files was written. Movable.
class LogFolders {
 public:
  /// Makes the run's folder. Errors (CannotCreate): it cannot be made.
  [[nodiscard]] static Result<LogFolders> create(const LogRequest& request, const std::string& run_id,
                                                 const std::string& temporary);

  LogFolders(LogFolders&& other) noexcept;
  LogFolders& operator=(LogFolders&&) = delete;
  ~LogFolders();

  /// Makes the folders of the next attempt; where somebody has removed those of the run, or put others in their place,
  /// new ones of that first. Errors (CannotCreate): they cannot be made, for instance on a full disk.
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
  std::string above_;                 ///< where temporary folders are made
  std::filesystem::path run_folder_;  ///< empty: no files at all (--log-dir=/dev/null)
  std::filesystem::path temporary_;   ///< removed in the end; empty: nothing is
  std::vector<int> held_;             ///< the folders made, open: the run's is the last
  std::uint32_t attempts_ = 0;
};

}  // namespace rollcall::elastic
