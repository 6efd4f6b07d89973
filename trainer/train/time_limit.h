#pragma once

#include <functional>
#include <optional>

namespace rollcall::train {

/// Watches the end of the job: whether it is time to save and end by oneself. Main thread only.
class TimeLimit {
 public:
  /// Seconds since the epoch at which the job ends, or nothing where that is not known. Asked again once the time seems
  /// to have come, as somebody may have moved the limit meanwhile.
  using Ask = std::function<std::optional<double>(double now)>;

  /// Never near.
  TimeLimit() = default;
  /// `save_before`: seconds before the end, > 0. `end`: what is known of it now.
  TimeLimit(double save_before, std::optional<double> end, Ask ask_again);

  /// Whether fewer than save_before seconds are left; stays so. `now` in seconds since the epoch.
  [[nodiscard]] bool near(double now);
  /// Seconds from `now` until near() becomes true; nothing where there is no limit.
  [[nodiscard]] std::optional<double> seconds_left(double now) const;

 private:
  double save_before_ = 0;
  std::optional<double> end_;
  Ask ask_again_;
  bool near_ = false;
};

}  // namespace rollcall::train
