#pragma once

#include <c10/util/Exception.h>
#include <utility>

#include "runtime/base/result.h"

namespace rollcall::process_group {

/// Thrown where a watched collective fails, with all that the ranks found out about it. Exit code Unavailable: a peer
/// was lost or did not come in time; Mismatch: ranks called different collectives.
class CollectiveFailure : public c10::DistError {
 public:
  explicit CollectiveFailure(rollcall::Error error)
      : c10::DistError(c10::SourceLocation{__func__, __FILE__, __LINE__}, error.message()), error_(std::move(error)) {}

  [[nodiscard]] const rollcall::Error& error() const { return error_; }

 private:
  rollcall::Error error_;
};

}  // namespace rollcall::process_group
