#include "trainer/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace rollcall::optim {
namespace {

double cosine(const ScheduleOptions& options, std::int64_t step) {
  const std::int64_t length = options.total_steps - options.warmup_steps;
  if (length <= 0) {
    return options.learning_rate;
  }
  const double progress = std::min(1.0, static_cast<double>(step - options.warmup_steps) / static_cast<double>(length));
  return options.learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

double drops(const ScheduleOptions& options, std::int64_t step) {
  const std::int64_t number = step / std::max<std::int64_t>(1, options.steps_per_drop);
  return options.learning_rate * std::pow(options.drop_factor, static_cast<double>(number));
}

}  // namespace

Result<ScheduleKind> parse_schedule(std::string_view text) {
  if (text == "none") {
    return ScheduleKind::None;
  }
  if (text == "cosine") {
    return ScheduleKind::Cosine;
  }
  if (text == "step") {
    return ScheduleKind::Step;
  }
  return fail("--lr-schedule", std::string(text), "is not a known schedule",
              "--lr-schedule=none, --lr-schedule=cosine or --lr-schedule=step");
}

double learning_rate(const ScheduleOptions& options, std::int64_t step) {
  if (step < options.warmup_steps) {
    return options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  }
  switch (options.kind) {
    case ScheduleKind::Cosine:
      return cosine(options, step);
    case ScheduleKind::Step:
      return drops(options, step);
    case ScheduleKind::None:
      break;
  }
  return options.learning_rate;
}

}  // namespace rollcall::optim
