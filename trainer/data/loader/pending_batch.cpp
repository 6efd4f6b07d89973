#include "trainer/data/loader/pending_batch.h"

#include <algorithm>
#include <exception>

namespace rollcall::data {

PendingBatch::PendingBatch(std::int64_t step, std::vector<SampleRef> samples, int image_size)
    : samples_(std::move(samples)),
      errors_(samples_.size()),
      image_size_(image_size),
      slot_floats_(static_cast<std::size_t>(image_size) * static_cast<std::size_t>(image_size) * 3) {
  const auto n = static_cast<std::int64_t>(samples_.size());
  batch_.step = step;
  batch_.images =
      at::empty({n, 3, image_size, image_size}, at::TensorOptions().dtype(at::kFloat), at::MemoryFormat::ChannelsLast);
  batch_.labels = at::zeros({n}, at::kLong);
  batch_.counted = at::ones({n}, at::kBool);
  pixels_ = batch_.images.data_ptr<float>();
  labels_ = batch_.labels.data_ptr<std::int64_t>();
}

void PendingBatch::read(std::size_t i, const Dataset& dataset, std::uint64_t epoch, Workspace& workspace) noexcept {
  try {
    const Result<std::int64_t> label = dataset.read(
        samples_[i].index, epoch, {slot(i).data(), PixelType::Float32, image_size_, image_size_}, workspace);
    if (label) {
      labels_[i] = *label;
    } else {
      errors_[i] = label.error();
    }
  } catch (const std::exception& exception) {
    errors_[i] = fail("--data", dataset.describe(samples_[i].index), exception.what(), "reporting it with this file",
                      ExitCode::Internal);
  }
}

std::optional<Error> PendingBatch::first_error() const {
  const auto bad = std::find_if(errors_.begin(), errors_.end(), [](const auto& error) { return error.has_value(); });
  return bad == errors_.end() ? std::nullopt : *bad;
}

std::optional<std::size_t> PendingBatch::next_good(std::size_t i) const {
  for (std::size_t distance = 1; distance < size(); ++distance) {
    const std::size_t candidate = (i + distance) % size();
    if (!errors_[candidate]) {
      return candidate;
    }
  }
  return std::nullopt;
}

Result<Batch> PendingBatch::finish() {
  bool* const counted = batch_.counted.data_ptr<bool>();
  for (std::size_t i = 0; i < size(); ++i) {
    counted[i] = samples_[i].counted && !errors_[i];
    if (!errors_[i]) {
      continue;
    }
    if (errors_[i]->exit_code == ExitCode::Internal) {
      return *errors_[i];
    }
    const std::optional<std::size_t> good = next_good(i);
    if (!good) {
      return fail("--data", errors_[i]->value, "is bad, as is every other sample of this batch",
                  "checking the data set", ExitCode::BadData);
    }
    std::ranges::copy(slot(*good), slot(i).begin());
    labels_[i] = labels_[*good];
    batch_.bad.push_back(errors_[i]->message());
  }
  return std::move(batch_);
}

}  // namespace rollcall::data
