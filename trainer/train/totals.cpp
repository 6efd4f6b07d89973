#include "trainer/train/totals.h"

#include <torch/torch.h>
#include <algorithm>

#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::train {

metrics::RunningAverage count(const at::Tensor& outputs, const at::Tensor& labels, const at::Tensor& losses,
                              const at::Tensor& counted) {
  const torch::NoGradGuard no_grad;
  const std::int64_t choices = std::min<std::int64_t>(5, outputs.size(1));
  const at::Tensor best = std::get<1>(outputs.detach().topk(choices, 1));
  const at::Tensor hit = best.eq(labels.unsqueeze(1)).logical_and(counted.unsqueeze(1));
  metrics::RunningAverage average;
  average.loss_sum = losses.detach().to(at::kDouble).masked_select(counted).sum().item<double>();
  average.correct_top1 = hit.select(1, 0).sum().item<std::int64_t>();
  average.correct_top5 = hit.sum().item<std::int64_t>();
  average.samples = counted.sum().item<std::int64_t>();
  return average;
}

Result<Totals> over_ranks(const Totals& mine, const c10::intrusive_ptr<c10d::ProcessGroup>& process_group) {
  if (!process_group) {
    return mine;
  }
  at::Tensor sums = torch::tensor({mine.average.loss_sum, static_cast<double>(mine.average.correct_top1),
                                   static_cast<double>(mine.average.correct_top5),
                                   static_cast<double>(mine.average.samples), static_cast<double>(mine.stopping),
                                   mine.waited, static_cast<double>(mine.saving), static_cast<double>(mine.gave_up)},
                                  at::kDouble);
  if (const Result<void> reduced = process_group::all_reduce_sum(process_group, sums); !reduced) {
    return reduced.error();
  }
  const double* const sum = sums.const_data_ptr<double>();
  const auto whole = [&](int i) { return static_cast<std::int64_t>(sum[i]); };
  return Totals{.average = {sum[0], whole(1), whole(2), whole(3)},
                .stopping = whole(4),
                .waited = sum[5],
                .saving = whole(6),
                .gave_up = whole(7)};
}

}  // namespace rollcall::train
