#include "trainer/train/watch_limit.h"

#include <optional>

#include "runtime/job/end_time.h"
#include "trainer/train/clock.h"

namespace rollcall::train {

TimeLimit watch_limit(const settings::Settings& settings, const Environment& environment, std::uint32_t rank,
                      std::vector<std::string>& warnings) {
  const double before = settings.number("save-before-limit");
  if (before == 0 || rank != 0) {
    return {};
  }
  const double now = wall_seconds_now();
  const auto ask = [&environment](double at) { return job::ask_job_end_time(environment, at); };
  TimeLimit limit(before, job::job_end_time(environment, now), ask);
  const std::optional<double> left = limit.seconds_left(now);
  const std::string setting = "--save-before-limit: " + settings.text("save-before-limit") + ": ";
  if (!left) {
    warnings.push_back(setting + "this job has no time limit, or Slurm does not tell it; nothing is saved before it");
  } else if (*left <= 0) {
    warnings.push_back(setting + "the job has less time left than that, so it ends after one step; ask for more time");
  }
  return limit;
}

}  // namespace rollcall::train
