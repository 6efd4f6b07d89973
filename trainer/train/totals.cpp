#include "trainer/train/totals.h"

#include <ATen/record_function.h>
#include <algorithm>
#include <vector>

#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"

namespace rollcall::train {

at::Tensor losses_of(const at::Tensor& outputs, const at::Tensor& labels, double label_smoothing) {
  return torch::cross_entropy_loss(outputs, labels, {}, at::Reduction::None, -100, label_smoothing);
}

at::Tensor losses_of(const at::Tensor& outputs, const data::Batch& batch, double label_smoothing) {
  RECORD_USER_SCOPE("compute: loss");
  at::Tensor first = losses_of(outputs, batch.labels, label_smoothing);
  if (batch.label_weight == 1) {
    return first;
  }
  const at::Tensor second = losses_of(outputs, batch.second_labels, label_smoothing);
  return first * batch.label_weight + second * (1 - batch.label_weight);
}

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

void count_bad_samples(const data::Batch& batch, metrics::RunningAverage& sums) {
  for (const Error& error : batch.bad) {
    (error.exit_code == ExitCode::BadData ? sums.damaged : sums.unread) += 1;
  }
}

Result<Totals> over_ranks(const Totals& mine, const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                          const device::Device& device, std::span<double> more) {
  if (!process_group) {
    return mine;
  }
  std::vector<double> numbers{mine.average.loss_sum,
                              static_cast<double>(mine.average.correct_top1),
                              static_cast<double>(mine.average.correct_top5),
                              static_cast<double>(mine.average.samples),
                              static_cast<double>(mine.average.damaged),
                              static_cast<double>(mine.average.unread),
                              static_cast<double>(mine.stopping),
                              mine.waited,
                              static_cast<double>(mine.saving),
                              static_cast<double>(mine.gave_up),
                              static_cast<double>(mine.evicted),
                              static_cast<double>(mine.non_finite),
                              static_cast<double>(mine.regrouping)};
  const auto own = static_cast<std::ptrdiff_t>(numbers.size());
  numbers.insert(numbers.end(), more.begin(), more.end());
  at::Tensor sums = device.place(torch::tensor(numbers, at::kDouble));
  if (const Result<void> reduced = process_group::all_reduce_sum(process_group, sums); !reduced) {
    return reduced.error();
  }
  sums = sums.to(at::kCPU);
  const double* const sum = sums.const_data_ptr<double>();
  std::copy_n(sum + own, more.size(), more.begin());
  const auto whole = [&](int i) { return static_cast<std::int64_t>(sum[i]); };
  return Totals{.average = {sum[0], whole(1), whole(2), whole(3), whole(4), whole(5)},
                .stopping = whole(6),
                .waited = sum[7],
                .saving = whole(8),
                .gave_up = whole(9),
                .evicted = whole(10),
                .non_finite = whole(11),
                .regrouping = whole(12)};
}

}  // namespace rollcall::train
