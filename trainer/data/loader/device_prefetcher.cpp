#include "trainer/data/loader/device_prefetcher.h"

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

DevicePrefetcher::Streams::Streams(c10::Device of_device)
    : device(of_device), beside(new_stream(device)), buffers{Buffers(device), Buffers(device)} {}

DevicePrefetcher::DevicePrefetcher(c10::Device device, const device::Kernels* kernels,
                                   const Normalisation& normalisation, c10::ScalarType computes_in,
                                   std::chrono::milliseconds longest)
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

DevicePrefetcher::~DevicePrefetcher() {
  if (!streams_) {
    return;
  }
  for (PendingCopy& copy : streams_->pending) {
    try {
      copy.copied.synchronize();
    } catch (const std::exception&) {
      // A failed device, whose failure was reported by the code that used it, reads nothing any more.
    }
  }
}

void DevicePrefetcher::release_copied() {
  std::deque<PendingCopy>& pending = streams_->pending;
  while (!pending.empty() && (pending.size() >= kInFlight || pending.front().copied.query())) {
    if (!wait_for(pending.front().copied, longest_, [] { return false; })) {
      throw_device_timeout(longest_);
    }
    pending.pop_front();
  }
}

void DevicePrefetcher::normalise(Batch& batch) const {
  const at::Tensor pixels = batch.images;
  if (pixels.scalar_type() != at::kByte) {
    return;
  }
  if (kernels_ == nullptr || !pixels.is_contiguous(at::MemoryFormat::ChannelsLast)) {
    batch.images = pixels.to(at::kFloat).mul_(scale_).add_(bias_);
    return;
  }
  batch.images = at::empty_like(pixels, pixels.options().dtype(computes_in_));
  kernels_->normalise_images({.type = *device::element_type(computes_in_),
                              .pixels = pixels.numel() / pixels.size(1),
                              .levels = pixels.const_data_ptr<std::uint8_t>(),
                              .images = batch.images.mutable_data_ptr(),
                              .scale = {affine_.scale[0], affine_.scale[1], affine_.scale[2]},
                              .bias = {affine_.bias[0], affine_.bias[1], affine_.bias[2]}});
}

Batch DevicePrefetcher::to_device(Batch batch) {
  const at::NoGradGuard no_grad;
  Batch there = streams_ ? copied(std::move(batch)) : std::move(batch);
  normalise(there);
  return there;
}

Batch DevicePrefetcher::copied(Batch batch) {
  RECORD_USER_SCOPE("copy: batch to the device");
  release_copied();
  const c10::Stream computing = current_stream(streams_->device);
  Buffers& buffers = streams_->buffers[streams_->next];
  Buffers& previous = streams_->buffers[1 - streams_->next];
  streams_->next = 1 - streams_->next;
  previous.used.record(computing);  // by all work that was enqueued so far
  Batch there = batch;
  PendingCopy copy{std::move(batch), c10::Event(streams_->device.type())};
  {
    const c10::StreamGuard on_stream(streams_->beside);
    buffers.used.block(streams_->beside);
    there.images = copy_into(buffers.images, copy.batch.images, streams_->device);
    there.labels = copy_into(buffers.labels, copy.batch.labels, streams_->device);
    there.second_labels = copy_into(buffers.second_labels, copy.batch.second_labels, streams_->device);
    there.counted = copy_into(buffers.counted, copy.batch.counted, streams_->device);
    copy.copied.record(streams_->beside);
  }
  copy.copied.block(computing);
  streams_->pending.push_back(std::move(copy));
  return there;
}

}  // namespace rollcall::data
