#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "trainer/data/loader/loader.h"

namespace rollcall::train {

/// The resources of its node that one rank may use.
struct NodeShare {
  std::uint32_t cpus = 1;          ///< CPUs for computing and loading, at least 1
  std::uint32_t compute_cpus = 1;  ///< CPUs of these that compute; a rank with a GPU has one, to feed the GPU
  std::uint64_t memory = 0;        ///< bytes
  std::uint32_t sharing = 1;       ///< number of ranks that may run on the same CPUs, this one included
};

/// Returns an equal part of the resources of `ranks_on_node` ranks: of the step's CPUs (SLURM_CPUS_ON_NODE), but no
/// more than this process may run on, and of the memory that its cgroups allow.
[[nodiscard]] NodeShare share_of_node(const Environment& environment, std::uint32_t ranks_on_node, bool on_gpu);

/// Returns the CPUs of `allowed` that are near the device at `bus` ("0000:3b:00.0", as the kernel or the driver writes
/// it), according to the kernel (/sys/bus/pci/devices/ID/local_cpulist); empty if the kernel does not say, or all of
/// them are near. `root`: prefix of /sys.
[[nodiscard]] std::vector<std::uint32_t> cpus_near(std::string bus, const std::vector<std::uint32_t>& allowed,
                                                   const std::string& root = "");

/// Returns the CPUs for a loader's workers: the CPUs `near` the device if they suffice for the workers of all `sharing`
/// ranks; else empty, which means any CPU, because workers that take turns are slower than workers on another NUMA
/// node. Pure.
[[nodiscard]] std::vector<std::uint32_t> cpus_of_workers(const std::vector<std::uint32_t>& near, int workers,
                                                         std::uint32_t sharing);

/// Returns the bytes of the images of LoaderOptions::batches_in_memory().
[[nodiscard]] std::uint64_t bytes_read_ahead(const data::LoaderOptions& options);

/// Returns the highest number of workers that auto uses: one for each CPU, as long as their batches fit into an eighth
/// of the memory; at least 1. `options` give the size of a batch.
[[nodiscard]] int most_workers(const NodeShare& share, const data::LoaderOptions& options);

/// Returns the number of workers that a loader starts with: `asked`, or else one for each CPU that the model does not
/// compute on, from 1 to most_workers().
[[nodiscard]] int workers_at_first(std::optional<int> asked, const NodeShare& share,
                                   const data::LoaderOptions& options);

/// Adjusts the number of workers during a run (--train-num-workers=auto). If training waits for more than a twentieth
/// of the time, it continues with enough workers to load a fifth faster than the rank computes; these share CPUs with
/// the computation at a lower priority. Measures the first five windows of at least 16 steps and one second; it ignores
/// four steps before each window, in which the loader fills its ring. The number only grows. The caller measures the
/// times.
class WorkerTuning {
 public:
  /// Constructs a tuning that changes nothing.
  WorkerTuning() = default;
  /// `most`: the number of workers that CPUs and memory allow.
  WorkerTuning(int workers, int most) : workers_(workers), most_(most) {}

  /// Records a step that took `elapsed` seconds; this rank waited `waited` of them for its batches, on which its
  /// workers together spent `loading` seconds. Returns the new number of workers if it changes.
  [[nodiscard]] std::optional<int> after_step(double waited, double elapsed, double loading);

 private:
  struct Window {
    int steps = 0;
    double waited = 0;
    double elapsed = 0;
    double loading = 0;
  };

  int workers_ = 0;
  int most_ = 0;
  int windows_ = 0;
  Window window_;
};

}  // namespace rollcall::train
