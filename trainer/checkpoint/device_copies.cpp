#include "trainer/checkpoint/device_copies.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include "trainer/streams.h"

namespace rollcall::checkpoint {

DeviceCopies::Streams::Streams(c10::Device of_device)
    : device(of_device), beside(new_stream(device)), copied_beside(device.type()), copied_in_order(device.type()) {}

void DeviceCopies::make_room(const std::string& name, const at::Tensor& rows) {
  at::Tensor& host = pinned_[name];
  if (!host.defined() || host.sizes() != rows.sizes() || host.scalar_type() != rows.scalar_type()) {
    host = at::empty(rows.sizes(), rows.options().device(at::kCPU).pinned_memory(true));
  }
}

at::Tensor DeviceCopies::copy(const std::string& name, const at::Tensor& rows, bool changes_at_once) {
  if (!streams_) {
    streams_.emplace(rows.device());
  }
  make_room(name, rows);
  at::Tensor& host = pinned_[name];
  const c10::Stream computing = current_stream(streams_->device);
  if (changes_at_once) {
    host.copy_(rows, /*non_blocking=*/true);
    streams_->copied_in_order.record(computing);
    return host;
  }
  c10::Event written(streams_->device.type());  // recorded after the computation of `rows`
  written.record(computing);
  written.block(streams_->beside);
  const c10::StreamGuard guard(streams_->beside);
  host.copy_(rows, /*non_blocking=*/true);
  streams_->copied_beside.record(streams_->beside);
  return host;
}

void DeviceCopies::block_compute_stream() {
  if (streams_) {
    streams_->copied_beside.block(current_stream(streams_->device));
  }
}

void DeviceCopies::wait() {
  if (streams_) {
    const c10::DeviceGuard guard(streams_->device);  // CUDA would make a context on the first one for the saving thread
    streams_->copied_in_order.synchronize();
    streams_->copied_beside.synchronize();
  }
}

}  // namespace rollcall::checkpoint
