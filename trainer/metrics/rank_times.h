#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/metrics/gpu_meter.h"
#include "trainer/metrics/metrics_writer.h"
#include "trainer/metrics/step_times.h"

namespace rollcall::metrics {

/// What a rank has used of its node.
struct RankUse {
  std::uint64_t peak_memory = 0;  ///< bytes, the most that its process has had resident so far
  double cpu_seconds = 0;         ///< of all its threads, so far
  double loading = 0;             ///< seconds that its loader's workers were busy in this step, all together
  double loader_seconds = 0;      ///< and could have been
};

/// The most memory that LibTorch has had of a device: bytes; 0: not known.
struct DeviceMemory {
  double allocated = 0;  ///< in tensors
  double reserved = 0;   ///< taken from the device: tensors' and what is kept for later ones
};

/// Which rank has had the most of something.
struct MostOfRanks {
  std::uint32_t rank = 0;
  double bytes = 0;  ///< 0: no rank has told
};

/// What the steps of every rank took, gathered at rank 0 without a collective of its own: the all-reduce that sums up a
/// step's totals has a few more numbers, places in which a rank writes its own and all others write zero. There are
/// places for 64 ranks; where there are more, ranks take turns, so that a step's message stays as short with
/// thousands of them. One thread.
class RankTimes {
 public:
  static constexpr std::uint32_t kPlaces = 64;

  /// `on_device`: alike on all ranks; only then add_gpu() and set_device_memory() are told.
  RankTimes(std::uint32_t rank, std::uint32_t world_size, bool on_device = false);

  /// A step of this rank.
  void add(const StepTimes& step, const RankUse& use);
  /// What this rank's node has used since the last call, where this rank measures it: joules.
  void add_energy(double joules) { mine_.energy += joules; }
  /// What the GPU of this rank did since the last call.
  void add_gpu(const GpuUse& use) { mine_.gpu += use; }
  /// At most so far, on this rank.
  void set_device_memory(const DeviceMemory& most) { mine_.device_memory = most; }

  /// What this rank adds to the all-reduce of step `step`: as many numbers on every rank. In its turn, what was added
  /// since its last one, which then begins anew.
  [[nodiscard]] std::vector<double> tell(std::int64_t step);
  /// The sums over all ranks of what tell(step) gave. Kept on rank 0 alone.
  void hear(std::int64_t step, std::span<const double> sums);

  /// {"event":"ranks", ...}: each rank's seconds a step since the last record, null where it told nothing since, and,
  /// where any has told of energy, the joules since; of devices what any knows; empties itself. Nothing where no rank
  /// has told of a step.
  [[nodiscard]] std::optional<Record> take_record(std::int64_t step);

  // On rank 0, of what ranks told in this run.
  [[nodiscard]] GpusNow gpus() const { return GpusNow::of(last_gpus_); }
  /// Watts of all ranks' GPUs together, the mean over all that add_gpu() was given. Not a number: not known.
  [[nodiscard]] double mean_gpu_watts() const { return GpusNow::of(run_gpus_).watts; }
  /// The rank that has had the most of a device's memory: &DeviceMemory::allocated, &DeviceMemory::reserved.
  [[nodiscard]] MostOfRanks most_device_memory(double DeviceMemory::*kind) const;

 private:
  struct Told {
    StepTimes times = {};
    double peak_memory = 0;
    double energy = 0;
    double cpu_seconds = 0;
    double loading = 0;
    double loader_seconds = 0;
    DeviceMemory device_memory = {};
    GpuUse gpu = {};

    /// What does not begin anew.
    [[nodiscard]] Told begun_anew() const { return {.peak_memory = peak_memory, .device_memory = device_memory}; }
  };
  [[nodiscard]] std::size_t numbers_of_place() const;
  [[nodiscard]] std::vector<double> own_numbers() const;
  void hear_of_device(std::size_t rank, std::span<const double> numbers);
  template <typename Number>
  void add_known(Record& record, const char* name, const Number& number) const;
  void add_devices(Record& record) const;
  [[nodiscard]] std::uint32_t first_of_turn(std::int64_t step) const;

  std::uint32_t rank_;
  std::uint32_t world_size_;
  bool on_device_;
  Told mine_;
  std::optional<double> cpu_before_;  ///< of this process, when it last added a step
  // Of each rank, on rank 0.
  std::vector<Told> told_;         ///< since the last record
  std::vector<GpuUse> last_gpus_;  ///< when it last told of its GPU; none before
  std::vector<GpuUse> run_gpus_;   ///< in all
};

}  // namespace rollcall::metrics
