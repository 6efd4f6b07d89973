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

  /// Whether all ranks are to do something else than the next step.
  [[nodiscard]] bool ask_to_act() const { return stopping > 0 || regrouping > 0 || gave_up > 0 || evicted > 0; }
};

/// Of one batch: `outputs` [n, classes] float32, `labels` [n] int64, `losses` [n] float32 (one per sample), `counted`
/// [n] bool: only these samples count. Top-5 is top-k of all outputs where there are fewer. Float64 [4] where they are:
/// the sum of the losses, correct among the best and the five best, samples; to be added up over batches. The host does
/// not wait for it. No gradient is recorded.
[[nodiscard]] at::Tensor count(const at::Tensor& outputs, const at::Tensor& labels, const at::Tensor& losses,
                               const at::Tensor& counted);

/// Adds the images of `batch` that could not be read, by their kind.
void count_bad_samples(const data::Batch& batch, metrics::RunningAverage& sums);

// The sums over all ranks, the same on each, by one all-reduce of thirteen doubles (which hold counts exactly up to
// 2^53) and of what else the ranks have to tell. They are made where the training computes: its device has them before
// the host, which may go on and read them later. What is float64 on the device between SumsOfRanks::of_host() and
// send_back() is of the same size in each step, and may be captured.

/// The sums of `counted`, float64 [4] (see count()), undefined where this rank counted nothing; of `non_finite`, [1]:
/// above 0 where a rank's gradients are not finite; and of what SumsOfRanks::of_host() gave, all on one device. Null
/// `process_group`: a world of one. On a device the host waits for nothing. Collective. Throws what c10d throws.
[[nodiscard]] at::Tensor add_up(const at::Tensor& counted, const at::Tensor& non_finite, const at::Tensor& of_host,
                                const c10::intrusive_ptr<c10d::ProcessGroup>& process_group);

/// Of add_up()'s sums, [1] float32 where they are: 1 where gradients of any rank are not finite, which is what
/// PyTorch's fused optimizers look for (ATen/native/cuda/fused_adam_utils.cuh), else 0.
[[nodiscard]] at::Tensor any_non_finite(const at::Tensor& sums);

/// `sums`, and behind them `extra`, single numbers on their device.
[[nodiscard]] at::Tensor with_extra(const at::Tensor& sums, const std::vector<at::Tensor>& extra);

/// A step's sums on their way from the hosts to the device, and back.
class SumsOfRanks {
 public:
  /// Nothing to be read.
  SumsOfRanks() = default;
  /// What this rank's host has to tell sets out to `device`: what count() does not say of `mine`; `more`, equally many
  /// numbers on every rank. The host does not wait for it.
  SumsOfRanks(const Totals& mine, std::span<const double> more,
              const c10::intrusive_ptr<c10d::ProcessGroup>& process_group, const device::Device& device);

  /// Float64 on the device.
  [[nodiscard]] const at::Tensor& of_host() const { return there_; }
  /// What add_up() has returned, with extra numbers or without, sets out to the host's memory. Once.
  void send_back(const at::Tensor& sums);

  struct Read {
    Totals totals;
    std::vector<double> more;   ///< the sums of `more`
    std::vector<double> extra;  ///< what with_extra() was given
  };
  /// Waits for what was sent back. Throws what LibTorch throws, as it does where the device has not ended within
  /// `longest`, and CollectiveFailure where the group's collectives do not end there: there are no sums then.
  [[nodiscard]] Read read(std::chrono::milliseconds longest);

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::size_t more_ = 0;
  at::Tensor mine_;                   ///< in the host's memory, for as long as it is read
  at::Tensor there_;                  ///< of_host()
  at::Tensor here_;                   ///< in the host's memory
  std::optional<c10::Event> copied_;  ///< on a device: when here_ is
};

/// The sums of `mine` over all ranks, for which the host waits: what `counted` says (undefined: nothing was counted)
/// and the rest of `mine`. Collective. Errors (Unavailable): a peer was lost, or the device does not end its work
/// within `longest`.
[[nodiscard]] Result<Totals> over_ranks(const Totals& mine, const at::Tensor& counted,
                                        const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                                        const device::Device& device, std::chrono::milliseconds longest);

}  // namespace rollcall::train
