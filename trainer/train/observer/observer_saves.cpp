// What an Observer tells of checkpoints and of copies for neighbours.

#include <fmt/format.h>

#include "trainer/train/observer/observer.h"

namespace rollcall::train {

void Observer::copied(const SaveReport& report) {
  const auto& outcome = report.outcome;
  if (!outcome.written) {
    const Error& error = outcome.written.error();
    warn(fmt::format("the copies of step {} for neighbours were not made: {}; try {}", outcome.step, error.reason,
                     error.action));
  }
  record({{"event", std::string("replica")},
          {"step", outcome.step},
          {"complete", outcome.written.has_value()},
          {"bytes", static_cast<std::int64_t>(*report.copied_bytes)},
          {"stall_seconds", report.stall_seconds},
          {"seconds", outcome.durable_seconds}});
}

void Observer::saved(const SaveReport& report) {
  if (report.copied_bytes) {
    copied(report);
    return;
  }
  const auto& outcome = report.outcome;
  for (const std::string& failure : outcome.failures) {
    warn(fmt::format("the checkpoint of step {}: {}; tried again", outcome.step, failure));
  }
  if (!outcome.written) {
    const Error& error = outcome.written.error();
    warn(fmt::format("the checkpoint of step {} was not written: {}: {}; earlier ones are as they were; try {}",
                     outcome.step, error.value, error.reason, error.action));
  }
  record({{"event", std::string("checkpoint")},
          {"step", outcome.step},
          {"written", outcome.written.has_value()},
          {"tries", static_cast<std::int64_t>(outcome.failures.size()) + 1},
          {"stall_seconds", report.stall_seconds},
          {"durable_seconds", outcome.durable_seconds}});
}

void Observer::save_skipped(std::int64_t step) {
  note(
      fmt::format("no checkpoint of step {}: the one before it is still being written; save less often, or "
                  "--checkpoint-overlap=wait",
                  step));
  record({{"event", std::string("checkpoint_skipped")}, {"step", step}});
}

}  // namespace rollcall::train
