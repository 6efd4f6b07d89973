#include "trainer/train/observer/tensorboard.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "trainer/data/transforms/transforms.h"
#include "trainer/metrics/tensorboard/event.h"
#include "trainer/metrics/tensorboard/record_events.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

namespace events = metrics::tensorboard;

using TaggedHistograms = std::vector<std::pair<std::string, events::Histogram>>;

void add_histogram(TaggedHistograms& histograms, std::string tag, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return;
  }
  const at::Tensor values = tensor.detach().to(at::kCPU, at::kFloat).contiguous(tensor.suggest_memory_format());
  events::Histogram histogram =
      events::histogram_of({values.const_data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  if (histogram.count > 0) {
    histograms.emplace_back(std::move(tag), std::move(histogram));
  }
}

at::Tensor by_channel(const std::array<double, 3>& values) {
  return torch::tensor(std::vector<float>(values.begin(), values.end())).view({3, 1, 1});
}

}  // namespace

Result<TensorBoard> TensorBoard::create(const config::RunConfig& config) {
  ASSIGN_OR_RETURN(events::EventFile file,
                   events::EventFile::create(config.folder + "/tensorboard", wall_seconds_now()));
  return TensorBoard(std::move(file), config.histogram_steps);
}

Result<void> TensorBoard::write(const metrics::Record& record) {
  for (const std::string& event : events::events_of(record)) {
    RETURN_IF_ERROR(file_.write(event));
  }
  return {};
}

Result<void> TensorBoard::show_images(std::int64_t step, const at::Tensor& images,
                                      const data::Normalisation& normalisation) {
  if (std::exchange(images_shown_, true)) {
    return {};
  }
  const at::Tensor grid = image_grid(images, normalisation);
  if (!grid.defined()) {
    return {};
  }
  const int height = static_cast<int>(grid.size(0));
  const int width = static_cast<int>(grid.size(1));
  ASSIGN_OR_RETURN(
      const std::string png,
      events::encode_png({grid.const_data_ptr<std::uint8_t>(), static_cast<std::size_t>(grid.numel())}, width, height));
  return file_.write(events::encode_image({wall_seconds_now(), step}, "first_batch", width, height, png));
}

bool TensorBoard::shows_tensors(std::int64_t step) const {
  return histogram_steps_ > 0 && step % histogram_steps_ == 0;
}

Result<void> TensorBoard::show_tensors(std::int64_t step, const torch::OrderedDict<std::string, at::Tensor>& named,
                                       bool sharded) {
  const std::string whose = sharded ? "_of_rank_0" : "";
  TaggedHistograms histograms;
  for (const auto& parameter : named) {
    add_histogram(histograms, "weights" + whose + "/" + parameter.key(), parameter.value());
    add_histogram(histograms, "gradients" + whose + "/" + parameter.key(), parameter.value().grad());
  }
  return file_.write(events::encode_histograms({wall_seconds_now(), step}, histograms));
}

at::Tensor image_grid(const at::Tensor& images, const data::Normalisation& normalisation) {
  constexpr std::int64_t kMost = 16;
  constexpr std::int64_t kLongestSide = 2048;
  const std::int64_t count = std::min(images.size(0), kMost);
  if (images.numel() == 0) {
    return {};
  }
  const auto columns = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const std::int64_t rows = (count + columns - 1) / columns;
  const std::int64_t side = columns * std::max(images.size(2), images.size(3));
  const std::int64_t stride = (side + kLongestSide - 1) / kLongestSide;
  at::Tensor shown = images.slice(0, 0, count).slice(2, 0, images.size(2), stride).slice(3, 0, images.size(3), stride);
  if (shown.scalar_type() != at::kByte) {
    shown = shown.to(at::kFloat) * by_channel(normalisation.stddev) + by_channel(normalisation.mean);
    shown = (shown * 255).round().clamp(0, 255).to(at::kByte);
  }
  shown = shown.contiguous();
  if (rows * columns > count) {
    const at::Tensor black = torch::zeros({rows * columns - count, 3, shown.size(2), shown.size(3)}, at::kByte);
    shown = torch::cat({shown, black});
  }
  const std::int64_t height = shown.size(2);
  const std::int64_t width = shown.size(3);
  return shown.view({rows, columns, 3, height, width})
      .permute({0, 3, 1, 4, 2})
      .reshape({rows * height, columns * width, 3})
      .contiguous();
}

}  // namespace rollcall::train
