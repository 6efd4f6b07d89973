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
#include "trainer/train/world.h"

namespace rollcall::train {

/// Whether the steps of a training are to be captured (--cuda-graph). `regroups`: its ranks may change. Errors (Usage):
/// they are to be, and cannot.
[[nodiscard]] Result<bool> captures_steps(const config::TrainConfig& config, const World& world, bool regroups);

/// What a training gives its device in each step alike, as a graph (--cuda-graph): captured once, and given to the
/// device as a whole from then on, which spares the host a launch for each kernel. Its collectives are watched.
///
/// The calling thread's current stream is not the device's default one. Collective: every rank does the same. Main
/// thread only.
class CapturedWork {
 public:
  /// `world` outlives it, and its device has graphs.
  explicit CapturedWork(const World& world) : world_(world) {}

  /// Has the device do what `work` enqueues, which is called the first time only: it reads and writes the same tensors
  /// each time, and waits for nothing on the host. Throws what LibTorch throws.
  /// `own`: how long it takes where no rank is waited for.
  void enqueue(const std::function<void()>& work, std::chrono::duration<double> own = {});

 private:
  void capture(const std::function<void()>& work);

  const World& world_;
  std::function<void()> replay_;  ///< empty: nothing was captured
  process_group::CapturedCollectives collectives_;
};

/// The gradients of a step as one graph of the device: forward, backward and exchange of all its batches. All batches
/// of a training have one size (--last-batch).
///
/// As CapturedWork; the current stream is that one from before the replica was made.
class StepGraph {
 public:
  /// Computes the step's gradients of batches that keep() was given, from their being zero to their exchange, and
  /// returns the sum of count() over them. Waits for nothing on the host. Gradients stay where they are from then on.
  using Gradients = std::function<at::Tensor(const std::vector<data::Batch>&)>;

  /// Of steps of so many batches. `world` outlives it. `mixes`: batches may have second labels.
  StepGraph(const World& world, std::size_t batches, bool mixes);

  /// Whether the next step is to be given to keep() and compute(): not the first ones, in which libraries choose how
  /// they compute, and DDP puts its buckets in order.
  [[nodiscard]] bool is_ready() const { return steps_before_ >= kStepsBefore; }
  /// One of those was done, at `now` of a monotonic clock, seconds.
  void step_was_done_before(double now) {
    longest_before_ = steps_before_ == 0 ? longest_before_ : std::max(longest_before_, now - last_before_);
    last_before_ = now;
    steps_before_ += 1;
  }

  /// Copies batch `number` of the step, of the device, to where the graph reads it.
  void keep(std::size_t number, const data::Batch& batch);
  /// What `gradients` returns for the batches that are kept. Throws what LibTorch throws.
  [[nodiscard]] at::Tensor compute(const Gradients& gradients);

 private:
  /// "DDP must be warmed up for at least 11 iterations" before a capture: docs.pytorch.org/docs/stable/notes/cuda.html;
  /// c10d's Reducer measures the first ten with events that the host looks at (reducer.cpp,
  /// should_collect_runtime_stats).
  static constexpr int kStepsBefore = 11;

  const World& world_;
  const bool mixes_;
  int steps_before_ = 0;
  double last_before_ = 0;     ///< when the last of them was done
  double longest_before_ = 0;  ///< seconds from one to the next: the host goes on before the device, by a step or two
  std::vector<data::Batch> places_;  ///< what the graph reads
  CapturedWork graph_;
  at::Tensor counted_;  ///< of the graph
};

}  // namespace rollcall::train
