#include "trainer/data/loader/batch_slot.h"

#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace rollcall::data {
namespace {

/// Returns whether only the loader holds the tensor: there is no copy of it and no view of its memory.
bool is_ours_alone(const at::Tensor& tensor) { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

}  // namespace

at::ScalarType scalar_type(PixelType type) {
  return type == PixelType::Float32 ? at::kFloat : type == PixelType::BFloat16 ? at::kBFloat16 : at::kByte;
}

BatchSlot::BatchSlot(const LoaderOptions& options, const LabelSets* sets)
    : options_(options),
      sets_(sets),
      set_numbers_(sets == nullptr ? 0 : 2 * static_cast<std::size_t>(options.batch_size)),
      errors_(static_cast<std::size_t>(options.batch_size)) {}

void BatchSlot::make_tensors() {
  const auto like = at::TensorOptions().pinned_memory(options_.pinned);
  const std::int64_t size = options_.pinned ? std::max(options_.image_size, options_.room_size) : options_.image_size;
  images_ = at::empty({options_.batch_size, 3, size, size}, like.dtype(scalar_type(options_.pixel_type)),
                      at::MemoryFormat::ChannelsLast);
  const auto new_labels = [&] {
    return sets_ == nullptr ? at::zeros({options_.batch_size}, like.dtype(at::kLong))
                            : at::zeros({options_.batch_size, sets_->width()}, like.dtype(at::kFloat));
  };
  labels_ = new_labels();
  counted_ = at::ones({options_.batch_size}, like.dtype(at::kBool));
  if (options_.mixing.mixes_batches()) {
    second_labels_ = new_labels();
  }
  pixels_ = static_cast<std::byte*>(images_.data_ptr());
  if (sets_ != nullptr) {
    label_values_ = set_numbers_.data();
    second_label_values_ = label_values_ + options_.batch_size;
  } else {
    label_values_ = labels_.data_ptr<std::int64_t>();
    second_label_values_ = second_labels_.defined() ? second_labels_.data_ptr<std::int64_t>() : nullptr;
  }
  counted_values_ = counted_.data_ptr<bool>();
  set_image_size();
}

void BatchSlot::open(const Sampler& sampler, std::int64_t step) {
  const auto held_elsewhere = [](const at::Tensor& tensor) { return tensor.defined() && !is_ours_alone(tensor); };
  step_ = step;
  epoch_ = sampler.epoch();
  {
    const std::lock_guard lock(making_);
    image_size_ = options_.growth.size(epoch_, options_.image_size);
    if (!images_.defined() || held_elsewhere(images_) || held_elsewhere(labels_) || held_elsewhere(second_labels_) ||
        held_elsewhere(counted_)) {
      has_memory_ = false;
    } else {
      set_image_size();
    }
    not_made_ = nullptr;
    is_open_ = true;
    if (!options_.pinned && !has_memory_) {
      make_tensors();
      has_memory_ = true;
    }
  }
  position_ = sampler.first_position(step);
  samples_ = sampler.batch(step);
  assert(static_cast<std::int64_t>(samples_.size()) <= options_.batch_size);
  mix_ = {};
  std::ranges::fill(errors_, std::nullopt);
  failure_.reset();
  fetch_time_ = 0;
  decode_time_ = 0;
  augment_time_ = 0;
  cancelled_.store(false, std::memory_order_relaxed);
  ready_.store(false, std::memory_order_relaxed);
  unread_.store(options_.batch_size, std::memory_order_release);
}

void BatchSlot::set_image_size() {
  images_.resize_({options_.batch_size, 3, image_size_, image_size_},
                  at::MemoryFormat::ChannelsLast);  // its memory stays
}

void BatchSlot::make_memory_under_lock() noexcept {
  if (has_memory_ || !is_open_ || not_made_) {
    return;
  }
  try {
    // LibTorch's allocator asks events of copies: CUDA would make a context on the first device for this thread.
    const c10::OptionalDeviceGuard guard(options_.pinned ? std::optional(options_.device) : std::nullopt);
    make_tensors();
    has_memory_.store(true, std::memory_order_release);
  } catch (...) {
    not_made_ = std::current_exception();
  }
}

/// Makes the memory, or waits for the thread that does.
void BatchSlot::make_memory() noexcept {
  if (!has_memory()) {
    const std::lock_guard lock(making_);
    make_memory_under_lock();
  }
}

void BatchSlot::offer_memory() noexcept {
  if (const std::unique_lock lock(making_, std::try_to_lock); lock) {
    make_memory_under_lock();
  }
}

void BatchSlot::release() {
  const std::lock_guard lock(making_);
  is_open_ = false;
  has_memory_ = false;
  for (at::Tensor* const tensor : {&images_, &labels_, &second_labels_, &counted_}) {
    tensor->reset();
  }
}

void BatchSlot::read(std::int64_t i, const Dataset& dataset, Workspace& workspace) noexcept {
  const auto sample = static_cast<std::size_t>(i);
  if (sample < samples_.size() && !cancelled_.load(std::memory_order_relaxed)) {
    make_memory();
    if (has_memory()) {
      read_sample(sample, dataset, workspace);
    }
  }
  // acq_rel: the thread that counts down to zero sees what all others have written.
  if (unread_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    complete();
    ready_.store(true, std::memory_order_release);
    ready_.notify_one();
  }
}

void BatchSlot::read_sample(std::size_t i, const Dataset& dataset, Workspace& workspace) noexcept {
  workspace.times = {};
  try {
    RECORD_USER_SCOPE("data: read sample");
    const Result<std::int64_t> label =
        dataset.read(samples_[i].index, augmentation_epoch(epoch_, samples_[i]), output(i), workspace);
    if (label) {
      label_values_[i] = *label;
    } else {
      errors_[i] = label.error();
    }
  } catch (const std::exception& exception) {
    errors_[i] = fail("--data", dataset.describe(samples_[i].index),
                      std::string(exception.what()) + " (sample " + std::to_string(samples_[i].index) + ")",
                      "reporting it with this file", ErrorKind::Internal);
  }
  fetch_time_.fetch_add(workspace.times.fetch.count(), std::memory_order_relaxed);
  decode_time_.fetch_add(workspace.times.decode.count(), std::memory_order_relaxed);
  augment_time_.fetch_add(workspace.times.augment.count(), std::memory_order_relaxed);
}

std::optional<std::size_t> BatchSlot::next_good(std::size_t i) const {
  for (std::size_t distance = 1; distance < samples_.size(); ++distance) {
    const std::size_t candidate = (i + distance) % samples_.size();
    if (!errors_[candidate]) {
      return candidate;
    }
  }
  return std::nullopt;
}

/// Runs in the thread that read the last sample.
void BatchSlot::complete() noexcept {
  if (cancelled_.load(std::memory_order_relaxed)) {
    return;
  }
  make_memory();  // there was no sample
  if (has_memory() && replace_bad_samples() && options_.mixing.mixes_batches()) {
    mix();
  }
}

namespace {

bool ends_the_run(const Error& error, BadSamples bad_samples) {
  return bad_samples == BadSamples::Fail || error.kind == ErrorKind::Internal ||
         (bad_samples == BadSamples::SkipDamaged && error.kind != ErrorKind::BadData);
}

}  // namespace

/// Replaces bad samples; returns false if no batch can be made.
bool BatchSlot::replace_bad_samples() {
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    counted_values_[i] = samples_[i].counted && !errors_[i];
    if (!errors_[i]) {
      continue;
    }
    if (ends_the_run(*errors_[i], options_.bad_samples)) {
      failure_ = errors_[i];
      return false;
    }
    const std::optional<std::size_t> good = next_good(i);
    if (!good) {
      const bool damaged = errors_[i]->kind == ErrorKind::BadData;
      failure_ = fail("--data", errors_[i]->value,
                      "cannot be used, nor can any other sample of this batch: " + errors_[i]->reason,
                      damaged ? "checking the data set" : "checking the file system that holds it",
                      damaged ? ErrorKind::BadData : ErrorKind::InputOutput);
      return false;
    }
    std::memcpy(place(i), place(*good), place_bytes());
    label_values_[i] = label_values_[*good];
  }
  return true;
}

void BatchSlot::mix() {
  const std::size_t n = samples_.size();
  for (std::size_t i = 0; i < n; ++i) {
    second_label_values_[i] = label_values_[mix_partner(i, n)];
  }
  if (n < 2) {
    return;
  }
  mix_ = choose_mix(options_.mixing, {image_size_, image_size_}, options_.seed, epoch_,
                    static_cast<std::uint64_t>(position_));
  mixed_places_.clear();
  for (std::size_t i = 0; i < n; ++i) {
    mixed_places_.push_back(output(i));
  }
  mix_batch(mix_, mixed_places_, last_place_);
}

void BatchSlot::write_rows() {
  const auto width = static_cast<std::size_t>(sets_->width());
  for (at::Tensor* const rows : {&labels_, &second_labels_}) {
    const std::int64_t* const numbers = rows == &labels_ ? label_values_ : second_label_values_;
    for (std::size_t i = 0; rows->defined() && i < samples_.size(); ++i) {
      sets_->write_row(numbers[i], {rows->data_ptr<float>() + i * width, width});
    }
  }
}

void BatchSlot::wait() const { ready_.wait(false, std::memory_order_acquire); }

Result<Batch> BatchSlot::take() {
  if (not_made_) {
    std::rethrow_exception(not_made_);
  }
  if (failure_) {
    return *failure_;
  }
  if (sets_ != nullptr) {
    write_rows();
  }
  Batch batch;
  const auto n = static_cast<std::int64_t>(samples_.size());
  batch.images = images_.narrow(0, 0, n);
  batch.labels = labels_.narrow(0, 0, n);
  batch.counted = counted_.narrow(0, 0, n);
  if (second_labels_.defined()) {
    batch.second_labels = second_labels_.narrow(0, 0, n);
    batch.label_weight = mix_.lambda;
  }
  batch.step = step_;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (errors_[i] && samples_[i].counted) {  // a padding sample is reported where it is counted
      batch.bad.push_back(*errors_[i]);
    }
  }
  batch.times.fetch = std::chrono::nanoseconds(fetch_time_);
  batch.times.decode = std::chrono::nanoseconds(decode_time_);
  batch.times.augment = std::chrono::nanoseconds(augment_time_);
  batch.times.samples = n;
  return batch;
}

}  // namespace rollcall::data
