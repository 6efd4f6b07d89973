#include "trainer/checkpoint/background/retries.h"

#include <utility>

namespace rollcall::checkpoint::background {

SaveOutcome write_with_retries(std::int64_t step, const RetryPolicy& policy, const std::function<Result<void>()>& write,
                               const std::function<bool(std::chrono::duration<double>)>& pause) {
  const auto started = std::chrono::steady_clock::now();
  SaveOutcome outcome;
  outcome.step = step;
  std::chrono::duration<double> length = policy.first_pause;
  for (std::int64_t tries = 0;; ++tries) {
    outcome.written = write();
    const bool lost_peer = !outcome.written && outcome.written.error().exit_code == ExitCode::Unavailable;
    if (outcome.written || lost_peer || tries == policy.retries || !pause(length)) {
      outcome.durable_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
      return outcome;
    }
    outcome.failures.push_back(outcome.written.error().reason);
    length *= 2;
  }
}

}  // namespace rollcall::checkpoint::background
