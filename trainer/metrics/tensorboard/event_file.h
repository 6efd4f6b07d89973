#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/base/result.h"

namespace rollcall::metrics::tensorboard {

/// A new event file for one start of a run. Each event is appended with one write(2), so that earlier events stay
/// readable when the process is killed. One thread; move only; closes in the destructor.
class EventFile {
 public:
  /// Creates "events.out.tfevents.<seconds>.<host>.<process>.0" in `folder`, which is created too, and writes its first
  /// event. TensorBoard reads the files of a folder in the order of their names, which is the order of `time` (seconds
  /// since the epoch). Errors: CannotCreate, and those of write().
  static Result<EventFile> create(const std::string& folder, double time);

  /// Appends an event of event.h. A partly written event is removed, so that later ones can be read. Errors
  /// (InputOutput): disk full, quota.
  [[nodiscard]] Result<void> write(std::string_view event);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  EventFile(File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  File file_;
  std::string path_;
  std::int64_t end_ = 0;  ///< offset after the last complete event
  bool torn_ = false;     ///< whether a part of an event may follow it
};

}  // namespace rollcall::metrics::tensorboard
