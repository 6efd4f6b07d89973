#include "trainer/train/step/totals.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/streams.h"
#include "trainer/torch.h"

namespace rollcall::train {

at::Tensor count(const at::Tensor& outputs, const at::Tensor& labels, const at::Tensor& losses,
                 const at::Tensor& counted) {
  const torch::NoGradGuard no_grad;
  const std::int64_t choices = std::min<std::int64_t>(5, outputs.size(1));
  const at::Tensor best = std::get<1>(outputs.detach().topk(choices, 1));
  const at::Tensor is_own = labels.dim() == 2 ? labels.gather(1, best).gt(0) : best.eq(labels.unsqueeze(1));
  const at::Tensor hit = is_own.logical_and(counted.unsqueeze(1));
  const at::Tensor of_counted = losses.detach().to(at::kDouble).masked_fill(counted.logical_not(), 0);
  return torch::stack({of_counted.sum(), hit.select(1, 0).sum().to(at::kDouble), hit.any(1).sum().to(at::kDouble),
                       counted.sum().to(at::kDouble)});
}

void count_bad_samples(const data::Batch& batch, metrics::RunningAverage& sums) {
  for (const Error& error : batch.bad) {
    (error.kind == ErrorKind::BadData ? sums.damaged : sums.unread) += 1;
  }
}

namespace {

constexpr std::int64_t kOfDevice = 5;  // values of count(), and whether gradients are not finite

/// Returns the values of a rank's host, in the order of totals_of().
std::vector<double> numbers_of(const Totals& mine) {
  return {static_cast<double>(mine.average.damaged), static_cast<double>(mine.average.unread),
          static_cast<double>(mine.stopping),        mine.waited,
          static_cast<double>(mine.saving),          static_cast<double>(mine.gave_up),
          static_cast<double>(mine.evicted),         static_cast<double>(mine.regrouping)};
}
constexpr std::int64_t kOfHost = 8;

Totals totals_of(std::span<const double> sums) {
  const auto whole = [&](std::size_t i) { return static_cast<std::int64_t>(sums[i]); };
  return Totals{.average = {sums[0], whole(1), whole(2), whole(3), whole(5), whole(6)},
                .stopping = whole(7),
                .waited = sums[8],
                .saving = whole(9),
                .gave_up = whole(10),
                .evicted = whole(11),
                .non_finite = whole(4),
                .regrouping = whole(12)};
}

}  // namespace

at::Tensor add_up(const at::Tensor& counted, const at::Tensor& non_finite, const at::Tensor& from_host,
                  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group) {
  const torch::NoGradGuard no_grad;
  const at::Tensor of_device = counted.defined() ? counted : torch::zeros({kOfDevice - 1}, from_host.options());
  // `non_finite` may itself be a NaN.
  at::Tensor sums = torch::cat({of_device, non_finite.ne(0).to(at::kDouble), from_host});
  if (const Result<void> reduced = process_group::all_reduce_sum(process_group, sums); !reduced) {
    throw process_group::CollectiveFailure(reduced.error());
  }
  return sums;
}

at::Tensor any_non_finite(const at::Tensor& sums) { return sums.narrow(0, kOfDevice - 1, 1).gt(0).to(at::kFloat); }

at::Tensor with_extra(const at::Tensor& sums, const std::vector<at::Tensor>& extra) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> all{sums};
  for (const at::Tensor& number : extra) {
    all.push_back(number.reshape({1}).to(at::kDouble));
  }
  return torch::cat(all);
}

SumsOfRanks::SumsOfRanks(const Totals& mine, std::span<const double> more,
                         const c10::intrusive_ptr<c10d::ProcessGroup>& process_group, const device::Device& device)
    : group_(process_group), more_(more.size()) {
  std::vector<double> numbers = numbers_of(mine);
  numbers.insert(numbers.end(), more.begin(), more.end());
  const bool apart = device.type() != at::kCPU;
  mine_ =
      torch::empty({static_cast<std::int64_t>(numbers.size())}, at::TensorOptions(at::kDouble).pinned_memory(apart));
  std::ranges::copy(numbers, mine_.mutable_data_ptr<double>());
  there_ = mine_.to(device.device(), /*non_blocking=*/true);
}

void SumsOfRanks::to_host(const at::Tensor& sums) {
  if (sums.is_cpu()) {
    here_ = sums;
    return;
  }
  here_ = torch::empty(sums.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
  here_.copy_(sums, /*non_blocking=*/true);
  copied_.emplace(sums.device().type());
  copied_->record(current_stream(sums.device()));
}

SumsOfRanks::Read SumsOfRanks::read(std::chrono::milliseconds longest) {
  if (copied_) {
    const bool ended = wait_for(*copied_, longest, [&] { return process_group::device_failure(group_).has_value(); });
    if (const std::optional<Error> failure = process_group::device_failure(group_)) {
      throw process_group::CollectiveFailure(*failure);
    }
    if (!ended) {
      throw_device_timeout(longest);
    }
  }
  const std::span<const double> all(here_.const_data_ptr<double>(), static_cast<std::size_t>(here_.numel()));
  const std::span<const double> rest = all.subspan(kOfDevice + kOfHost);
  return {.totals = totals_of(all),
          .more = {rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(more_)},
          .extra = {rest.begin() + static_cast<std::ptrdiff_t>(more_), rest.end()}};
}

Result<Totals> over_ranks(const Totals& mine, const at::Tensor& counted,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& process_group, const device::Device& device,
                          std::chrono::milliseconds longest) {
  Totals totals;
  const Result<void> read = process_group::guard_collective(process_group, [&] {
    SumsOfRanks sums(mine, {}, process_group, device);
    sums.to_host(add_up(counted, torch::zeros({1}, device.options()), sums.on_device(), process_group));
    totals = sums.read(longest).totals;
  });
  return read ? Result<Totals>(totals) : read.error();
}

}  // namespace rollcall::train
