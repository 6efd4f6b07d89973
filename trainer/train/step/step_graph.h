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

/// A training's step as a graph (--cuda-graph): forward and backward pass of all its batches, the exchange of gradients
/// and the update, captured once and then launched as a whole, which saves the host a launch for each kernel. The
/// watchdog watches its collectives. All batches of a training have one size (--last-batch).
///
/// The calling thread's current stream must not be the device's default stream, and be the same since before the
/// replica was created. Collective: every rank does the same. Main thread only.
class StepGraph {
 public:
  /// Enqueues a step of batches that keep() copied, from zeroing the gradients to the update, and returns the values
  /// for the host. `from_host` is what run() got. Does not wait on the host. The gradients keep their memory from then
  /// on.
  using Work = std::function<at::Tensor(const std::vector<data::Batch>&, const at::Tensor& from_host)>;

  /// `batches`: batches of a step. `context` outlives it, and its device supports graphs. `mixes`: batches may have
  /// second labels.
  StepGraph(const JobContext& context, std::size_t batches, bool mixes);

  /// Returns whether the next step uses keep() and run(). The first steps do not: libraries choose their algorithms in
  /// them, and DDP orders its buckets.
  [[nodiscard]] bool is_ready() const { return warm_up_steps_ >= kWarmUpSteps; }
  /// Counts one of those first steps, done at `now` of a monotonic clock, seconds.
  void note_warm_up_step(double now) {
    longest_before_ = warm_up_steps_ == 0 ? longest_before_ : std::max(longest_before_, now - last_before_);
    last_before_ = now;
    warm_up_steps_ += 1;
  }

  /// Copies batch `number` of the step, on the device, to the tensors that the graph reads.
  void keep(std::size_t number, const data::Batch& batch);
  /// Runs the step; returns the result of `work`, which is called only the first time, in the same tensor each time.
  /// `from_host`: on the device, of the same size each time. Throws what LibTorch throws.
  [[nodiscard]] const at::Tensor& run(const at::Tensor& from_host, const Work& work);

 private:
  /// "DDP must be warmed up for at least 11 iterations" before a capture: docs.pytorch.org/docs/stable/notes/cuda.html;
  /// c10d's Reducer measures the first ten with events that the host looks at (reducer.cpp,
  /// should_collect_runtime_stats).
  static constexpr int kWarmUpSteps = 11;

  void capture(const Work& work);

  const JobContext& context_;
  const bool mixes_;
  int warm_up_steps_ = 0;
  double last_before_ = 0;  ///< time of the last of them
  /// Longest time between two of them, seconds: the host is ahead of the device by a step or two.
  double longest_before_ = 0;
  std::vector<data::Batch> places_;  ///< tensors that the graph reads
  at::Tensor from_host_;             ///< likewise
  at::Tensor for_host_;              ///< output of the graph
  std::function<void()> replay_;     ///< empty: nothing was captured
  process_group::CapturedCollectives collectives_;
};

}  // namespace rollcall::train
