#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "trainer/data/loader/loader.h"

namespace rollcall::train {

/// What one rank may use of its node.
struct NodeShare {
  std::uint32_t cpus = 1;          ///< to compute and to load, at least 1
  std::uint32_t compute_cpus = 1;  ///< of which the model computes on these; a GPU's rank has one, to feed the GPU
  std::uint64_t memory = 0;        ///< bytes
  std::uint32_t sharing = 1;       ///< ranks that may run on the same CPUs as this one, at least itself
};

/// An equal part of what `ranks_on_node` ranks have together: of the step's CPUs (SLURM_CPUS_ON_NODE), but not more
/// than this process may run on, and of the memory that its cgroups leave it.
[[nodiscard]] NodeShare share_of_node(const Environment& environment, std::uint32_t ranks_on_node, bool on_gpu);

/// Of the CPUs `allowed` those near the device at `bus` ("0000:3b:00.0", as the kernel or the driver writes it), as the
/// kernel says (/sys/bus/pci/devices/ID/local_cpulist); empty where it does not say, or all of them are. `root`: before
/// /sys.
[[nodiscard]] std::vector<std::uint32_t> cpus_near(std::string bus, const std::vector<std::uint32_t>& allowed,
                                                   const std::string& root = "");

/// Where a loader's workers run: on the CPUs `near` the device, where each of them has one, and those of as many ranks
/// as are `sharing` them; else anywhere, since workers that take turns are slower than those of another NUMA node.
/// Pure.
[[nodiscard]] std::vector<std::uint32_t> cpus_of_workers(const std::vector<std::uint32_t>& near, int workers,
                                                         std::uint32_t sharing);

/// Bytes of the batches that a loader reads ahead: its ring of workers * prefetch + 1 batches.
[[nodiscard]] std::uint64_t bytes_read_ahead(const data::LoaderOptions& options);

/// The most workers that auto takes: one for each CPU, as far as their batches fit into an eighth of the memory; at
/// least
/// 1. `options` say what a batch takes.
[[nodiscard]] int most_workers(const NodeShare& share, const data::LoaderOptions& options);

/// How many workers a loader begins with: the number asked for, or else one for each CPU that the model does not
/// compute on, 1 <= number <= most_workers().
[[nodiscard]] int workers_at_first(std::optional<int> asked, const NodeShare& share,
                                   const data::LoaderOptions& options);

/// --train-num-workers=auto during a run. Where training waits for more than a twentieth of the time, it goes on with
/// so many workers that they load a fifth faster than the rank computes; they share CPUs with the computation then, at
/// a lower priority. Measured in the first five windows of at least 16 steps and one second; four steps before each, in
/// which the loader fills its ring, are left out. The number only grows. Plain value; the caller brings the times.
class WorkerTuning {
 public:
  /// One that changes nothing.
  WorkerTuning() = default;
  /// `most`: what CPUs and memory allow.
  WorkerTuning(int workers, int most) : workers_(workers), most_(most) {}

  /// A step took `elapsed` seconds; for `waited` of them this rank waited for its batches, on which its workers
  /// together had spent `loading` seconds. Returns the number of workers to go on with where that is another one.
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
