#include "trainer/metrics/data_wait.h"

#include <fmt/format.h>

namespace rollcall::metrics {
namespace {

constexpr double kWorthTelling = 0.05;  // of the time
constexpr double kWorkersAreBusy = 0.8;

std::string advice(const DataWait& wait, bool cpus_left) {
  if (wait.workers == 0) {
    return "--train-num-workers=auto";
  }
  if (wait.utilisation() < kWorkersAreBusy) {
    return "a larger --prefetch, or faster storage: the workers themselves waited";
  }
  const std::string packed = "packing the images with rollcall-pack --repack";
  return cpus_left ? fmt::format("--train-num-workers={}, or {}", 2 * wait.workers, packed)
                   : "more CPUs for each task (--cpus-per-task), or " + packed;
}

}  // namespace

std::string input_bound_advice(const DataWait& wait, bool cpus_left) {
  if (wait.fraction() < kWorthTelling || wait.waited < 1) {
    return "";
  }
  return fmt::format("input-bound: {:.0f} % of the time waited for data; try {}", 100 * wait.fraction(),
                     advice(wait, cpus_left));
}

}  // namespace rollcall::metrics
