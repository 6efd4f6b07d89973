#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <c10/core/Event.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "runtime/base/result.h"
#include "trainer/data/loader/loader.h"
#include "trainer/device/device.h"
#include "trainer/metrics/running_average.h"

namespace rollcall::train {

/// The values that the ranks exchange once a step's gradients are complete.
struct Totals {
  metrics::RunningAverage average;
  std::int64_t stopping = 0;    ///< ranks at which a stop signal has arrived
  double waited = 0;            ///< sum of the seconds that ranks waited for their batch
  std::int64_t saving = 0;      ///< ranks with a save in progress
  std::int64_t gave_up = 0;     ///< ranks at which too many saves have failed
  std::int64_t evicted = 0;     ///< 1: another run writes to the folder
  std::int64_t non_finite = 0;  ///< ranks with gradients that are not finite
  std::int64_t regrouping = 0;  ///< ranks whose agent has reported a change of the world

  /// Returns whether all ranks must do something other than the next step.
  [[nodiscard]] bool ask_to_act() const { return stopping > 0 || regrouping > 0 || gave_up > 0 || evicted > 0; }
};

/// Counts one batch: `outputs` [n, classes] float32, `labels` [n] int64 or [n, classes] of 0 and 1, `losses` [n]
/// float32 (one per sample), `counted` [n] bool selects the samples that count. Top-5 is top-k of all outputs if there
/// are fewer classes. A sample with several classes is correct if one of them is among the best. Returns float64 [4] on
/// their device: the sum of the losses, correct top-1 and top-5, and the number of samples; to be added up over
/// batches. Does not wait on the host, and records no gradient.
[[nodiscard]] at::Tensor count(const at::Tensor& outputs, const at::Tensor& labels, const at::Tensor& losses,
                               const at::Tensor& counted);

/// Adds the images of `batch` that could not be read, by their kind.
void count_bad_samples(const data::Batch& batch, metrics::RunningAverage& sums);

// Sums over all ranks, the same on each, by one all-reduce of thirteen doubles (which hold counts exactly up to 2^53)
// and of further values of the ranks. They are computed on the training's device, which has them before the host reads
// them. The float64 values on the device between SumsOfRanks::on_device() and to_host() have the same size in each step
// and can be captured.

/// Returns the sums of `counted`, float64 [4] (see count(); undefined: this rank counted nothing), of `non_finite`,
/// [1], above 0 if a rank's gradients are not finite, and of SumsOfRanks::on_device(), all on one device. Null
/// `process_group`: a world of one rank. Does not wait on the host if they are on a device. Collective. Throws what
/// c10d throws.
[[nodiscard]] at::Tensor add_up(const at::Tensor& counted, const at::Tensor& non_finite, const at::Tensor& from_host,
                                const c10::intrusive_ptr<c10d::ProcessGroup>& process_group);

/// Returns, from add_up()'s sums, float32 [1] on their device: 1 if gradients of any rank are not finite, as PyTorch's
/// fused optimizers expect (ATen/native/cuda/fused_adam_utils.cuh), else 0.
[[nodiscard]] at::Tensor any_non_finite(const at::Tensor& sums);

/// Returns `sums` followed by `extra`, which are single numbers on their device.
[[nodiscard]] at::Tensor with_extra(const at::Tensor& sums, const std::vector<at::Tensor>& extra);

/// A step's sums on their way from the hosts to the device and back.
class SumsOfRanks {
 public:
  /// Constructs an empty object that cannot be read.
  SumsOfRanks() = default;
  /// Starts the copy of this rank's host values to `device`: the values of `mine` that count() does not compute, and
  /// `more`, equally many numbers on every rank. The host does not wait for it.
  SumsOfRanks(const Totals& mine, std::span<const double> more,
              const c10::intrusive_ptr<c10d::ProcessGroup>& process_group, const device::Device& device);

  /// Returns the host values on the device, float64.
  [[nodiscard]] const at::Tensor& on_device() const { return there_; }
  /// Starts the copy of add_up()'s result, with or without extra numbers, to the host's memory. Once.
  void to_host(const at::Tensor& sums);

  struct Read {
    Totals totals;
    std::vector<double> more;   ///< sums of `more`
    std::vector<double> extra;  ///< values that with_extra() appended
  };
  /// Waits for the copy to the host. Throws what LibTorch throws, also if the device does not finish within `longest`,
  /// and CollectiveFailure if the group's collectives do not finish there; there are no sums then.
  [[nodiscard]] Read read(std::chrono::milliseconds longest);

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::size_t more_ = 0;
  at::Tensor mine_;                   ///< in the host's memory, kept while it is read
  at::Tensor there_;                  ///< on_device()
  at::Tensor here_;                   ///< in the host's memory
  std::optional<c10::Event> copied_;  ///< on a device: recorded after the copy to here_
};

/// Returns the sums of `mine` over all ranks and waits for them: `counted` (undefined: nothing was counted) and the
/// other values of `mine`. Collective. Errors (Unavailable): a peer was lost, or the device does not finish its work
/// within `longest`.
[[nodiscard]] Result<Totals> over_ranks(const Totals& mine, const at::Tensor& counted,
                                        const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                                        const device::Device& device, std::chrono::milliseconds longest);

}  // namespace rollcall::train
