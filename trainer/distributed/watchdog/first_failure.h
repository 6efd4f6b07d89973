#pragma once

#include <mutex>
#include <optional>
#include <string>

namespace rollcall::process_group {

/// Why the groups of this process that share it cannot go on: the first failure of any of them, or of the program
/// itself. A group that is closed afterwards tells its other ranks so; they would otherwise hear that this rank left in
/// good order. Thread-safe.
class FirstFailure {
 public:
  /// `what` in one line, as it follows "rank 3 gave up: ". The first that is told stays.
  void tell(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (!what_) {
      what_ = what;
    }
  }
  [[nodiscard]] std::optional<std::string> told() const {
    const std::lock_guard lock(mutex_);
    return what_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<std::string> what_;
};

}  // namespace rollcall::process_group
