#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/data/loader/loader.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// Returns whether the steps of a training are captured as a graph (--cuda-graph). `regroups`: its ranks may change.
/// Errors (Usage): capture is requested but not possible.
[[nodiscard]] Result<bool> captures_steps(const config::TrainConfig& config, const JobContext& context, bool regroups);

/// A graph of work that a training enqueues on its device in each step alike (--cuda-graph): captured once and then
/// replayed as a whole, which saves the host a launch for each kernel. The watchdog watches its collectives.
///
/// The calling thread's current stream must not be the device's default stream. Collective: every rank does the same.
/// Main thread only.
class GraphCapture {
 public:
  /// `context` outlives it, and its device supports graphs.
  explicit GraphCapture(const JobContext& context) : context_(context) {}

  /// Runs what `work` enqueues on the device. `work` is called only the first time: it must read and write the same
  /// tensors each time and must not wait on the host. `own`: duration of the work without waiting for other ranks.
  /// Throws what LibTorch throws.
  void run(const std::function<void()>& work, std::chrono::duration<double> own = {});

 private:
  void capture(const std::function<void()>& work);

  const JobContext& context_;
  std::function<void()> replay_;  ///< empty: nothing was captured
  process_group::CapturedCollectives collectives_;
};

/// A graph of a step's gradients: forward, backward and exchange of all its batches. All batches of a training have one
/// size (--last-batch).
///
/// The requirements of GraphCapture apply; the current stream must be the same since before the replica was created.
class StepGraph {
 public:
  /// Computes the step's gradients of batches that keep() copied, from zeroing to their exchange, and returns the sum
  /// of count() over the batches. Does not wait on the host. The gradients keep their memory from then on.
  using Gradients = std::function<at::Tensor(const std::vector<data::Batch>&)>;

  /// `batches`: batches of a step. `context` outlives it. `mixes`: batches may have second labels.
  StepGraph(const JobContext& context, std::size_t batches, bool mixes);

  /// Returns whether the next step uses keep() and compute(). The first steps do not: libraries choose their algorithms
  /// in them, and DDP orders its buckets.
  [[nodiscard]] bool is_ready() const { return warm_up_steps_ >= kWarmUpSteps; }
  /// Counts one of those first steps, done at `now` of a monotonic clock, seconds.
  void note_warm_up_step(double now) {
    longest_before_ = warm_up_steps_ == 0 ? longest_before_ : std::max(longest_before_, now - last_before_);
    last_before_ = now;
    warm_up_steps_ += 1;
  }

  /// Copies batch `number` of the step, on the device, to the tensors that the graph reads.
  void keep(std::size_t number, const data::Batch& batch);
  /// Returns the result of `gradients` for the kept batches. Throws what LibTorch throws.
  [[nodiscard]] at::Tensor compute(const Gradients& gradients);

 private:
  /// "DDP must be warmed up for at least 11 iterations" before a capture: docs.pytorch.org/docs/stable/notes/cuda.html;
  /// c10d's Reducer measures the first ten with events that the host looks at (reducer.cpp,
  /// should_collect_runtime_stats).
  static constexpr int kWarmUpSteps = 11;

  const JobContext& context_;
  const bool mixes_;
  int warm_up_steps_ = 0;
  double last_before_ = 0;  ///< time of the last of them
  /// Longest time between two of them, seconds: the host is ahead of the device by a step or two.
  double longest_before_ = 0;
  std::vector<data::Batch> places_;  ///< tensors that the graph reads
  GraphCapture graph_;
  at::Tensor counted_;  ///< output of the graph
};

}  // namespace rollcall::train
