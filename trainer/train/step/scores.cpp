#include "trainer/train/step/scores.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/metrics/average_precision.h"
#include "trainer/torch.h"

namespace rollcall::train {
namespace {

/// The ranks exchange their outputs for so many classes at a time. With 100,000 images this takes 130 MB on each rank.
constexpr std::int64_t kClassesAtOnce = 64;

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
    std::ranges::copy(bytes, static_cast<std::uint8_t*>(part.mutable_data_ptr()));  // of a rank without images: none
  }
  return at::cat(parts);
}

/// Returns the average precision of a class; `outputs`: float32 [n], `labels`: uint8 [n], both contiguous on the CPU.
double average_precision(const at::Tensor& outputs, const at::Tensor& labels) {
  const auto* const output = outputs.const_data_ptr<float>();
  const auto* const label = labels.const_data_ptr<std::uint8_t>();
  std::vector<metrics::Scored> images(static_cast<std::size_t>(outputs.size(0)));
  for (std::size_t i = 0; i < images.size(); ++i) {
    images[i] = {output[i], label[i] != 0};
  }
  return metrics::average_precision(std::move(images));
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
  const std::int64_t classes = outputs_.front().size(1);
  at::Tensor sum = torch::zeros({1}, at::kDouble);
  for (std::int64_t first = 0; first < classes; first += kClassesAtOnce) {
    const auto by_class = [&](const std::vector<at::Tensor>& batches) {
      std::vector<at::Tensor> some;
      some.reserve(batches.size());
      for (const at::Tensor& batch : batches) {
        some.push_back(batch.narrow(1, first, std::min(kClassesAtOnce, classes - first)));
      }
      return of_all_ranks(at::cat(some).index({counted}), context).t().contiguous();
    };
    const at::Tensor outputs = by_class(outputs_);
    const at::Tensor labels = by_class(labels_);
    for (std::int64_t i = 0; i < outputs.size(0); ++i) {
      if ((first + i) % context.world_size == context.rank) {  // each rank sorts the images of some classes
        sum += average_precision(outputs[i], labels[i]);
      }
    }
  }
  if (const Result<void> added = process_group::all_reduce_sum(context.process_group, sum); !added) {
    throw process_group::CollectiveFailure(added.error());
  }
  return sum.item<double>() / static_cast<double>(classes);
}

}  // namespace rollcall::train
