#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::checkpoint::background {

/// What is done when a save fails.
struct RetryPolicy {
  std::int64_t retries = 2;                      ///< further tries of the same save
  std::chrono::duration<double> first_pause{1};  ///< before the first of them; doubled for each further one
};

/// How a save went.
struct SaveOutcome {
  std::int64_t step = 0;              ///< the training's, when it was saved
  Result<void> written;               ///< the last try's
  std::vector<std::string> failures;  ///< reasons of the tries that failed before the last one
  double durable_seconds = 0;         ///< until the file was in place, or the last try had failed
};

/// Calls `write` until it succeeds, as `policy` says. A lost peer (code Unavailable) is final. `pause` waits, or
/// returns false where there is no time for another try. Ranks that write together have the same errors, and so try
/// again together.
[[nodiscard]] SaveOutcome write_with_retries(std::int64_t step, const RetryPolicy& policy,
                                             const std::function<Result<void>()>& write,
                                             const std::function<bool(std::chrono::duration<double>)>& pause);

}  // namespace rollcall::checkpoint::background
