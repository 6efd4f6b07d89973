#include "trainer/train/observer/meters.h"

#include <chrono>

#include "runtime/base/time_limit.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

constexpr std::chrono::seconds kLongestAnswer{2};  // a working driver or kernel responds much earlier
constexpr double kMeasureSeconds = 1;              // a reading costs microseconds, on some nodes a millisecond
constexpr const char* kGpuGivenUp =
    "gpu: NVML did not respond within 2 s; load, memory and power of this rank's GPU are no longer reported";

}  // namespace

Meters::Meters(const JobContext& context) {
  const bool has_gpu = context.device.type() != at::kCPU;
  const std::shared_ptr<const metrics::Nvml> nvml =
      has_gpu ? run_with_timeout(kLongestAnswer, [] { return metrics::Nvml::open(); }).value_or(nullptr) : nullptr;
  if (context.local_rank == 0) {
    energy_ = run_with_timeout(kLongestAnswer, [nvml] {
                return std::make_shared<metrics::EnergyMeter>(nvml);
              }).value_or(nullptr);
  }
  const auto meter = run_with_timeout(kLongestAnswer, [nvml, uuid = context.device.facts().uuid] {
    return metrics::GpuMeter::of(nvml, uuid, seconds_now());
  });
  if (meter && *meter) {
    gpu_ = std::make_shared<metrics::GpuMeter>(**meter);
  }
}

std::string Meters::add_energy(metrics::RankTimes& times) {
  const double now = seconds_now();
  if (!energy_ || now - energy_read_ < kMeasureSeconds) {
    return "";
  }
  energy_read_ = now;
  if (const auto joules = run_with_timeout(kLongestAnswer, [energy = energy_] { return energy->take(); })) {
    times.add_energy(*joules);
    return "";
  }
  energy_.reset();
  return "energy: a counter did not respond within 2 s; energy used from now on is not counted";
}

std::optional<double> Meters::take_joules() {
  return energy_ && !energy_->covers().empty()
             ? run_with_timeout(kLongestAnswer, [energy = energy_] { return energy->take(); })
             : std::nullopt;
}

std::string Meters::add_gpu(metrics::RankTimes& times) {
  const double now = seconds_now();
  if (!gpu_ || now - gpu_read_ < kMeasureSeconds) {
    return "";
  }
  gpu_read_ = now;
  if (const auto use = run_with_timeout(kLongestAnswer, [gpu = gpu_, now] { return gpu->take(now); })) {
    times.add_gpu(*use);
    return "";
  }
  gpu_.reset();
  return kGpuGivenUp;
}

std::string Meters::leave_out_gpu() {
  if (!gpu_ || run_with_timeout(kLongestAnswer, [gpu = gpu_] { return gpu->take(seconds_now()); })) {
    return "";
  }
  gpu_.reset();
  return kGpuGivenUp;
}

}  // namespace rollcall::train
