#pragma once

#include <cstdint>
#include <span>

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "runtime/base/result.h"
#include "trainer/data/loader/loader.h"
#include "trainer/device/device.h"
#include "trainer/metrics/running_average.h"

namespace rollcall::train {

/// Cross entropy of each image, float32 [images]. `outputs`: [images, classes], float32; `labels`: int64 [images].
[[nodiscard]] at::Tensor losses_of(const at::Tensor& outputs, const at::Tensor& labels, double label_smoothing);

/// With mixed labels, each label's loss by its weight: the same as one loss against the mixed label.
[[nodiscard]] at::Tensor losses_of(const at::Tensor& outputs, const data::Batch& batch, double label_smoothing);

/// What the ranks tell each other once a step's gradients are there.
struct Totals {
  metrics::RunningAverage average;
  std::int64_t stopping = 0;    ///< ranks at which a stop signal has arrived
  double waited = 0;            ///< seconds that ranks waited for their batch, summed up
  std::int64_t saving = 0;      ///< ranks that are still saving in the background
  std::int64_t gave_up = 0;     ///< ranks at which too many saves have failed
  std::int64_t evicted = 0;     ///< 1: another run writes to the folder by now
  std::int64_t non_finite = 0;  ///< ranks with gradients that are not finite
  std::int64_t regrouping = 0;  ///< ranks whose agent has said that the world changes
};

/// Of one batch: `outputs` [n, classes] float32, `labels` [n] int64, `losses` [n] float32 (one per sample), `counted`
/// [n] bool: only these samples count. Top-5 is top-k of all outputs where there are fewer. No gradient is recorded.
[[nodiscard]] metrics::RunningAverage count(const at::Tensor& outputs, const at::Tensor& labels,
                                            const at::Tensor& losses, const at::Tensor& counted);

/// Adds the images of `batch` that could not be read, by their kind.
void count_bad_samples(const data::Batch& batch, metrics::RunningAverage& sums);

/// The sums over all ranks, the same on each; one all-reduce of thirteen doubles (which hold counts exactly up to 2^53)
/// and of `more`, equally many numbers on every rank, which become their sums too. `process_group` null: a world of
/// one. They travel from and to `device`. Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<Totals> over_ranks(const Totals& mine, const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                                        const device::Device& device, std::span<double> more = {});

}  // namespace rollcall::train
