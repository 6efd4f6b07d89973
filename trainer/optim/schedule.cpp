#include "trainer/optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

namespace rollcall::optim {
namespace {

/// Returns how much of the way from the end of the warm-up to the end of the training is done, 0 to 1.
double progress(const ScheduleOptions& options, std::int64_t step) {
  const std::int64_t length = options.total_steps - options.warmup_steps;
  return length <= 0 ? 0
                     : std::min(1.0, static_cast<double>(step - options.warmup_steps) / static_cast<double>(length));
}

/// Returns the fraction of the way down that is left, 1 to 0.
double left_of(const ScheduleOptions& options, double progress) {
  switch (options.kind) {
    case ScheduleKind::Cosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * progress));
    case ScheduleKind::Polynomial:
      return std::pow(1 - progress, options.power);
    default:
      return 1 - progress;
  }
}

/// Returns how often the rate was multiplied by `drop_factor` before `step`.
std::int64_t drops_before(const ScheduleOptions& options, std::int64_t step) {
  if (options.kind == ScheduleKind::Step) {
    return step / std::max<std::int64_t>(1, options.steps_per_drop);
  }
  return std::ranges::count_if(options.milestones, [step](std::int64_t milestone) { return milestone <= step; });
}

/// Returns the point after `done` of half a cosine from `from` to `to`, where `done` is 0 to 1.
double along_cosine(double from, double to, double done) {
  return to + 0.5 * (from - to) * (1 + std::cos(std::numbers::pi * done));
}

/// Returns the fraction of the largest rate as OneCycleLR has it: the last step of the warm-up is at the largest rate.
double one_cycle(const ScheduleOptions& options, std::int64_t step) {
  const std::int64_t top = std::max<std::int64_t>(0, options.warmup_steps - 1);
  if (step < top) {
    return along_cosine(options.warmup_start_factor, 1, static_cast<double>(step) / static_cast<double>(top));
  }
  const std::int64_t down = std::max<std::int64_t>(1, options.total_steps - 1 - top);
  return along_cosine(1, options.end_factor,
                      std::min(1.0, static_cast<double>(step - top) / static_cast<double>(down)));
}

}  // namespace

Result<ScheduleKind> parse_schedule(std::string_view text) {
  constexpr std::array kKinds{std::pair{std::string_view("none"), ScheduleKind::None},
                              std::pair{std::string_view("cosine"), ScheduleKind::Cosine},
                              std::pair{std::string_view("linear"), ScheduleKind::Linear},
                              std::pair{std::string_view("polynomial"), ScheduleKind::Polynomial},
                              std::pair{std::string_view("one-cycle"), ScheduleKind::OneCycle},
                              std::pair{std::string_view("step"), ScheduleKind::Step},
                              std::pair{std::string_view("milestones"), ScheduleKind::Milestones}};
  for (const auto& [name, kind] : kKinds) {
    if (text == name) {
      return kind;
    }
  }
  return fail("--lr-schedule", std::string(text), "is not a known schedule",
              "--lr-schedule=cosine, or --help=training");
}

bool ends_with_training(ScheduleKind kind) {
  return kind == ScheduleKind::Cosine || kind == ScheduleKind::Linear || kind == ScheduleKind::Polynomial ||
         kind == ScheduleKind::OneCycle;
}

double learning_rate(const ScheduleOptions& options, std::int64_t step) {
  if (options.kind == ScheduleKind::OneCycle) {
    return options.learning_rate * one_cycle(options, step);
  }
  if (step < options.warmup_steps) {
    const double line =
        options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
    return options.learning_rate * options.warmup_start_factor + (1 - options.warmup_start_factor) * line;
  }
  if (ends_with_training(options.kind)) {
    const double left = left_of(options, progress(options, step));
    return options.learning_rate * (options.end_factor + (1 - options.end_factor) * left);
  }
  return options.kind == ScheduleKind::None
             ? options.learning_rate
             : options.learning_rate * std::pow(options.drop_factor, static_cast<double>(drops_before(options, step)));
}

}  // namespace rollcall::optim
