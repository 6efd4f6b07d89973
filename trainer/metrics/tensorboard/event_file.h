#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/base/result.h"

namespace rollcall::metrics::tensorboard {

/// A new file of events of one start of a run, to which each is appended in one write(2): whatever is killed when,
/// earlier events stay readable, and a reader takes what follows them for not yet written. One thread; move only;
/// closes in the destructor.
class EventFile {
 public:
  /// Creates "events.out.tfevents.<seconds>.<host>.<process>.0" in `folder`, which is created where absent, and
  /// begins it. TensorBoard reads the files of a folder in the order of their names, so in that of `time` (seconds
  /// since the epoch). Errors: CannotCreate; InputOutput: those of write().
  static Result<EventFile> create(const std::string& folder, double time);

  /// Appends an event of event.h. One that could not be written whole is taken back, so that those after it can be
  /// read. Errors (InputOutput): disk full, quota.
  [[nodiscard]] Result<void> write(std::string_view event);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  EventFile(File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  File file_;
  std::string path_;
  std::int64_t end_ = 0;  ///< of the last whole event
  bool torn_ = false;     ///< something may stand behind it
};

}  // namespace rollcall::metrics::tensorboard
