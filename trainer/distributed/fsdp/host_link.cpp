#include "trainer/distributed/fsdp/host_link.h"

#include <c10/core/StreamGuard.h>

#include "trainer/streams.h"

namespace rollcall::parallel::fsdp {
namespace {

std::int64_t size_of(const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); }

}  // namespace

HostLink::Streams::Streams(c10::Device device)
    : up(new_stream(device)), down(new_stream(device)), downloaded(device.type()) {}

HostLink::HostLink(const UnshardedMemory& memory, Counters& counters) : memory_(memory), counters_(counters) {
  if (!memory_.device().is_cpu()) {
    streams_.emplace(memory_.device());
  }
}

at::TensorOptions HostLink::host_options(at::ScalarType type) const {
  return at::TensorOptions(type).device(at::kCPU).pinned_memory(streams_.has_value());
}

HostLink::Uploaded HostLink::run_on_upload_stream(const std::function<void()>& work) {
  if (!streams_) {
    work();
    return std::nullopt;
  }
  return run_on_stream(streams_->up, work);
}

at::Tensor HostLink::upload(const at::Tensor& host) {
  counters_.uploaded_bytes += size_of(host);
  const at::Tensor device = memory_.take(size_of(host)).view(host.scalar_type());
  return device.copy_(host, /*non_blocking=*/true);
}

void HostLink::await(const Uploaded& uploaded) const {
  if (uploaded) {
    uploaded->block(current_stream(memory_.device()));
  }
}

void HostLink::download(at::Tensor& host, const at::Tensor& device) {
  counters_.downloaded_bytes += size_of(device);
  if (!streams_) {
    host.copy_(device);
    return;
  }
  const c10::Stream computing = current_stream(memory_.device());
  streams_->downloaded.block(computing);  // so that the memory of `leaving_` may be used again
  leaving_ = device;
  order_after(streams_->down, computing);
  const c10::StreamGuard guard(streams_->down);
  host.copy_(device, /*non_blocking=*/true);
  streams_->downloaded.record(streams_->down);
}

at::Tensor HostLink::downloaded(const at::Tensor& device) {
  counters_.downloaded_bytes += size_of(device);
  if (streams_) {
    streams_->downloaded.synchronize();
  }
  return device.to(at::kCPU);
}

void HostLink::wait() {
  if (streams_) {
    streams_->up.synchronize();
    streams_->downloaded.synchronize();
    leaving_.reset();
  }
}

}  // namespace rollcall::parallel::fsdp
