#include "trainer/train/step/scores.h"

#include <cstddef>
#include <cstring>

#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/metrics/average_precision.h"
#include "trainer/torch.h"

namespace rollcall::train {
namespace {

/// Returns the rows of all ranks, one rank after the other.
at::Tensor of_all_ranks(const at::Tensor& mine, const JobContext& context) {
  const at::Tensor rows = mine.cpu().contiguous();
  const auto* const begin = static_cast<const std::uint8_t*>(rows.const_data_ptr());
  const auto all = process_group::all_gather_bytes(context.process_group, {begin, begin + rows.nbytes()});
  if (!all) {
    throw process_group::CollectiveFailure(all.error());
  }
  const auto row_bytes = static_cast<std::size_t>(rows.size(1) * rows.element_size());
  std::vector<at::Tensor> parts;
  for (const std::vector<std::uint8_t>& bytes : *all) {
    at::Tensor& part = parts.emplace_back(
        at::empty({static_cast<std::int64_t>(bytes.size() / row_bytes), rows.size(1)}, rows.options()));
    std::memcpy(part.mutable_data_ptr(), bytes.data(), bytes.size());
  }
  return at::cat(parts);
}

}  // namespace

void Scores::add(const at::Tensor& outputs, const data::Batch& batch) {
  if (batch.labels.dim() == 2) {
    outputs_.push_back(outputs);
    labels_.push_back(batch.labels.to(at::kByte));  // copies: a batch's memory is reused
    counted_.push_back(batch.counted.clone());
  }
}

double Scores::mean_average_precision(const JobContext& context) const {
  const torch::NoGradGuard no_grad;
  const at::Tensor counted = at::cat(counted_);
  const auto by_class = [&](const std::vector<at::Tensor>& parts) {
    return of_all_ranks(at::cat(parts).index({counted}), context).t().contiguous();
  };
  const at::Tensor scores = by_class(outputs_);
  const at::Tensor labels = by_class(labels_);
  const auto images = static_cast<std::size_t>(scores.size(1));
  // Each rank sorts the scores of some classes.
  at::Tensor sum = torch::zeros({1}, at::kDouble);
  for (std::int64_t i = context.rank; i < scores.size(0); i += context.world_size) {
    const auto* const score = scores[i].const_data_ptr<float>();
    const auto* const label = labels[i].const_data_ptr<std::uint8_t>();
    std::vector<metrics::Scored> of_class(images);
    for (std::size_t image = 0; image < images; ++image) {
      of_class[image] = {score[image], label[image] != 0};
    }
    sum += metrics::average_precision(std::move(of_class));
  }
  if (const Result<void> added = process_group::all_reduce_sum(context.process_group, sum); !added) {
    throw process_group::CollectiveFailure(added.error());
  }
  return sum.item<double>() / static_cast<double>(scores.size(0));
}

}  // namespace rollcall::train
