#include "trainer/data/loader/batch_copies.h"

#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>

#include <exception>
#include <utility>

#include "trainer/device/element_type.h"
#include "trainer/streams.h"

namespace rollcall::data {
namespace {

/// Copies `host` into the memory of `place`, which is allocated again if it is too small. An undefined tensor stays
/// undefined.
at::Tensor copy_into(at::Tensor& place, const at::Tensor& host, c10::Device device) {
  if (!host.defined()) {
    return {};
  }
  if (!place.defined() || place.size(0) < host.size(0) || place.scalar_type() != host.scalar_type() ||
      place.sizes().slice(1) != host.sizes().slice(1)) {
    place = at::empty_like(host, host.options().device(device).pinned_memory(false));
  }
  return place.narrow(0, 0, host.size(0)).copy_(host, /*non_blocking=*/true);
}

}  // namespace

BatchCopies::Streams::Streams(c10::Device of_device)
    : device(of_device), beside(new_stream(device)), places{Place(device), Place(device)} {}

BatchCopies::BatchCopies(c10::Device device, const device::Kernels* kernels, const Normalisation& normalisation,
                         c10::ScalarType computes_in, std::chrono::milliseconds longest)
    : streams_(device.is_cpu() ? nullptr : std::make_unique<Streams>(device)),
      kernels_(kernels),
      affine_(normalisation.affine()),
      computes_in_(computes_in),
      longest_(longest) {
  const auto by_channel = [&](const auto& values) {
    return at::tensor({values[0], values[1], values[2]}, at::kFloat).view({1, 3, 1, 1}).to(device);
  };
  scale_ = by_channel(affine_.scale);
  bias_ = by_channel(affine_.bias);
}

BatchCopies::~BatchCopies() {
  if (!streams_) {
    return;
  }
  for (Sent& sent : streams_->sent) {
    try {
      sent.copied.synchronize();
    } catch (const std::exception&) {
      // A failed device, whose failure was reported by the code that used it, reads nothing any more.
    }
  }
}

void BatchCopies::let_go_of_copied() {
  std::deque<Sent>& sent = streams_->sent;
  while (!sent.empty() && (sent.size() >= kInFlight || sent.front().copied.query())) {
    if (!wait_for(sent.front().copied, longest_, [] { return false; })) {
      throw_device_timeout(longest_);
    }
    sent.pop_front();
  }
}

void BatchCopies::normalise(Batch& batch) const {
  const at::Tensor levels = batch.images;
  if (levels.scalar_type() != at::kByte) {
    return;
  }
  if (kernels_ == nullptr || !levels.is_contiguous(at::MemoryFormat::ChannelsLast)) {
    batch.images = levels.to(at::kFloat).mul_(scale_).add_(bias_);
    return;
  }
  batch.images = at::empty_like(levels, levels.options().dtype(computes_in_));
  kernels_->normalise_images({.type = *device::element_type(computes_in_),
                              .pixels = levels.numel() / levels.size(1),
                              .levels = levels.const_data_ptr<std::uint8_t>(),
                              .images = batch.images.mutable_data_ptr(),
                              .scale = {affine_.scale[0], affine_.scale[1], affine_.scale[2]},
                              .bias = {affine_.bias[0], affine_.bias[1], affine_.bias[2]}});
}

Batch BatchCopies::place(Batch batch) {
  const at::NoGradGuard no_grad;
  Batch there = streams_ ? copied(std::move(batch)) : std::move(batch);
  normalise(there);
  return there;
}

Batch BatchCopies::copied(Batch batch) {
  RECORD_USER_SCOPE("copy: batch to the device");
  let_go_of_copied();
  const c10::Stream computing = current_stream(streams_->device);
  Place& place = streams_->places[streams_->next];
  Place& before = streams_->places[1 - streams_->next];
  streams_->next = 1 - streams_->next;
  before.used.record(computing);  // by all work that was enqueued so far
  Batch there = batch;
  Sent sent{std::move(batch), c10::Event(streams_->device.type())};
  {
    const c10::StreamGuard on_stream(streams_->beside);
    place.used.block(streams_->beside);
    there.images = copy_into(place.images, sent.batch.images, streams_->device);
    there.labels = copy_into(place.labels, sent.batch.labels, streams_->device);
    there.second_labels = copy_into(place.second_labels, sent.batch.second_labels, streams_->device);
    there.counted = copy_into(place.counted, sent.batch.counted, streams_->device);
    sent.copied.record(streams_->beside);
  }
  sent.copied.block(computing);
  streams_->sent.push_back(std::move(sent));
  return there;
}

}  // namespace rollcall::data
