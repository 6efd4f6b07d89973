#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/metrics/gpu_meter.h"
#include "trainer/metrics/metrics_writer.h"
#include "trainer/metrics/step_times.h"

namespace rollcall::metrics {

/// The resources of its node that a rank has used.
struct RankUse {
  std::uint64_t peak_memory = 0;  ///< peak resident memory of its process, in bytes
  double cpu_seconds = 0;         ///< CPU time of all threads so far
  double loading = 0;             ///< seconds that all workers of its data loader were busy in this step
  double loader_seconds = 0;      ///< seconds that they could have been busy
};

/// LibTorch's peak memory on a device, in bytes; 0: unknown.
struct DeviceMemory {
  double allocated = 0;  ///< in tensors
  double reserved = 0;   ///< by the caching allocator, including tensors
};

/// The rank with the largest value.
struct MostOfRanks {
  std::uint32_t rank = 0;
  double bytes = 0;  ///< 0: no rank has reported
};

/// Collects the step times of every rank on rank 0, without a collective of its own: the all-reduce of a step's totals
/// has some more numbers, slots to which one rank writes its values and all others write zero. There are slots for 64
/// ranks; with more ranks, they take turns, so that the message does not grow. One thread.
class RankTimes {
 public:
  static constexpr std::uint32_t kSlots = 64;

  /// `on_device` must be equal on all ranks. Only with it, values of add_gpu() and set_device_memory() are sent.
  RankTimes(std::uint32_t rank, std::uint32_t world_size, bool on_device = false);

  /// Adds a step of this rank.
  void add(const StepTimes& step, const RankUse& use);
  /// Adds the joules of this rank's node since the last call, on the rank that measures them.
  void add_energy(double joules) { mine_.energy += joules; }
  /// Adds the use of this rank's GPU since the last call.
  void add_gpu(const GpuUse& use) { mine_.gpu += use; }
  /// Sets the peak device memory of this rank.
  void set_device_memory(const DeviceMemory& most) { mine_.device_memory = most; }

  /// Returns this rank's numbers for the all-reduce of step `step`, equally many on every rank. In this rank's turn
  /// they are its sums since its last turn, which are then reset.
  [[nodiscard]] std::vector<double> contribution(std::int64_t step);
  /// Collects the sums over all ranks of contribution(step); only rank 0 keeps them.
  void collect(std::int64_t step, std::span<const double> sums);

  /// Returns {"event":"ranks", ...} and resets the sums: each rank's seconds per step since the last record (null where
  /// it did not report), the joules since then where a rank measures them, and the known values of devices. Nothing
  /// where no rank has reported a step.
  [[nodiscard]] std::optional<Record> take_record(std::int64_t step);

  // These return values of this run on rank 0.
  [[nodiscard]] GpuSummary gpus() const { return GpuSummary::of(last_gpus_); }
  /// Returns the mean power of all ranks' GPUs together, in watts. NaN: unknown.
  [[nodiscard]] double mean_gpu_watts() const { return GpuSummary::of(run_gpus_).watts; }
  /// Returns the rank with the most device memory of a kind: &DeviceMemory::allocated, &DeviceMemory::reserved.
  [[nodiscard]] MostOfRanks most_device_memory(double DeviceMemory::*kind) const;

 private:
  struct RankTotals {
    StepTimes times = {};
    double peak_memory = 0;
    double energy = 0;
    double cpu_seconds = 0;
    double loading = 0;
    double loader_seconds = 0;
    DeviceMemory device_memory = {};
    GpuUse gpu = {};

    /// Returns the peaks, which are not reset.
    [[nodiscard]] RankTotals begun_anew() const { return {.peak_memory = peak_memory, .device_memory = device_memory}; }
  };
  [[nodiscard]] std::size_t numbers_of_slot() const;
  [[nodiscard]] std::vector<double> own_numbers() const;
  void collect_device(std::size_t rank, std::span<const double> numbers);
  template <typename Number>
  void add_known(Record& record, const char* name, const Number& number) const;
  void add_devices(Record& record) const;
  [[nodiscard]] std::uint32_t first_of_turn(std::int64_t step) const;

  std::uint32_t rank_;
  std::uint32_t world_size_;
  bool on_device_;
  RankTotals mine_;
  std::optional<double> cpu_before_;  ///< this process's CPU seconds when it last added a step
  // Values of each rank, on rank 0.
  std::vector<RankTotals> totals_;  ///< since the last record
  std::vector<GpuUse> last_gpus_;   ///< the last values of its GPU
  std::vector<GpuUse> run_gpus_;    ///< sums over the run
};

}  // namespace rollcall::metrics
