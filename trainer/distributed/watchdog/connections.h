#pragma once

#include <c10/util/intrusive_ptr.h>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "trainer/distributed/watchdog/watchdog.h"

namespace rollcall::process_group {

/// A backend's connections: who asks what is wrong with them does not while another thread lets go of them, or after.
/// Thread-safe.
class Connections {
 public:
  /// `trouble_of`: null where the backend cannot tell.
  Connections(c10::intrusive_ptr<c10d::Backend> backend, TroubleOf trouble_of)
      : backend_(std::move(backend)), trouble_(trouble_of) {}

  /// What is wrong, in the backend's own words; "": nothing that is known.
  [[nodiscard]] std::string trouble();
  /// At once, whatever is under way. A backend that cannot is left as it is.
  void abort();
  /// In good order. All ranks do, and each waits for the others; for one that has ended meanwhile, not for ever. A
  /// backend of c10d's that is neither shut down nor aborted warns, and aborts.
  void shut_down();

 private:
  const c10::intrusive_ptr<c10d::Backend> backend_;
  const TroubleOf trouble_;
  std::mutex mutex_;
  bool over_ = false;  ///< guarded by mutex_
};

}  // namespace rollcall::process_group
