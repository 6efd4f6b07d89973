#include "trainer/train/time_limit.h"

#include <utility>

namespace rollcall::train {

TimeLimit::TimeLimit(double save_before, std::optional<double> end, Ask ask_again)
    : save_before_(save_before), end_(end), ask_again_(std::move(ask_again)) {}

bool TimeLimit::near(double now) {
  if (near_ || !end_ || now < *end_ - save_before_) {
    return near_;
  }
  if (const std::optional<double> moved = ask_again_ ? ask_again_(now) : std::nullopt) {
    end_ = moved;
  }
  near_ = now >= *end_ - save_before_;
  return near_;
}

std::optional<double> TimeLimit::seconds_left(double now) const {
  return end_ ? std::optional(*end_ - save_before_ - now) : std::nullopt;
}

}  // namespace rollcall::train
