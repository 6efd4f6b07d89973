#include "trainer/metrics/throughput.h"

#include <fmt/format.h>

#include <numeric>

namespace rollcall::metrics {
namespace {

constexpr double kWorthTelling = 0.05;  // fraction of the time
constexpr double kWorkersAreBusy = 0.8;

std::string advice(const DataWait& wait, bool cpus_left) {
  if (wait.workers == 0) {
    return "--train-num-workers=auto";
  }
  if (wait.utilisation() < kWorkersAreBusy) {
    return "raising --prefetch, or using faster storage: the workers themselves waited";
  }
  const std::string packed = "packing the images with rollcall-pack --repack";
  return cpus_left ? fmt::format("--train-num-workers={}, or {}", 2 * wait.workers, packed)
                   : "raising --cpus-per-task, or " + packed;
}

}  // namespace

void Throughput::step_done(double now, std::int64_t images) {
  steps_.push_back({now, images});
  if (steps_.size() > latest_steps_ + 1) {
    steps_.pop_front();
  }
}

std::optional<double> Throughput::images_per_second() const {
  if (steps_.size() < 2) {
    return std::nullopt;
  }
  const double seconds = steps_.back().end - steps_.front().end;
  if (seconds <= 0) {
    return std::nullopt;
  }
  const auto images = std::accumulate(steps_.begin() + 1, steps_.end(), std::int64_t{0},
                                      [](std::int64_t sum, const Step& step) { return sum + step.images; });
  return static_cast<double>(images) / seconds;
}

std::string input_bound_advice(const DataWait& wait, bool cpus_left) {
  if (wait.fraction() < kWorthTelling || wait.waited < 1) {
    return "";
  }
  return fmt::format("input-bound: {:.0f} % of the time waited for data; try {}", 100 * wait.fraction(),
                     advice(wait, cpus_left));
}

}  // namespace rollcall::metrics
