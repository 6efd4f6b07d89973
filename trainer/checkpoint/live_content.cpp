#include "trainer/checkpoint/live_content.h"

#include <c10/core/StreamGuard.h>

#include <memory>
#include <string_view>

#include "trainer/streams.h"

namespace rollcall::checkpoint {
namespace {

constexpr std::string_view kOptimizerState = "/optimizer/state/";

format::StridedBytes values_of(const at::Tensor& host) {
  return {static_cast<const std::byte*>(host.const_data_ptr()), static_cast<std::size_t>(host.element_size()),
          host.sizes().vec(), host.strides().vec()};
}

Result<void> wait_for(DeviceCopies& copies) {
  try {
    copies.wait();
  } catch (const c10::Error& error) {
    return fail("checkpoint", "", std::string("copying from the GPU failed: ") + error.what_without_backtrace(),
                "looking for the GPU's errors in the node's log", ExitCode::Unavailable);
  }
  return {};
}

}  // namespace

DeviceCopies::Streams::Streams(c10::Device of_device)
    : device(of_device), beside(new_stream(device)), copied_beside(device.type()), copied_in_order(device.type()) {}

at::Tensor DeviceCopies::copy(const std::string& name, const at::Tensor& rows, bool changes_at_once) {
  if (!streams_) {
    streams_.emplace(rows.device());
  }
  at::Tensor& host = pinned_[name];
  if (!host.defined() || host.sizes() != rows.sizes() || host.scalar_type() != rows.scalar_type()) {
    host = at::empty(rows.sizes(), rows.options().device(at::kCPU).pinned_memory(true));
  }
  const c10::Stream computing = current_stream(streams_->device);
  if (changes_at_once) {
    host.copy_(rows, /*non_blocking=*/true);
    streams_->copied_in_order.record(computing);
    return host;
  }
  c10::Event written(streams_->device.type());  // what computes `rows` is done
  written.record(computing);
  written.block(streams_->beside);
  const c10::StreamGuard guard(streams_->beside);
  host.copy_(rows, /*non_blocking=*/true);
  streams_->copied_beside.record(streams_->beside);
  return host;
}

void DeviceCopies::hold_back() {
  if (streams_) {
    streams_->copied_beside.block(current_stream(streams_->device));
  }
}

void DeviceCopies::wait() {
  if (streams_) {
    streams_->copied_in_order.synchronize();
    streams_->copied_beside.synchronize();
  }
}

background::LiveContent live_content(const StateParts& parts, const std::set<std::string>& parameter_keys,
                                     DeviceCopies& device_copies) {
  background::LiveContent live;
  live.values = parts.values;
  live.tensors.reserve(parts.tensors.size());
  live.wait_arrived = [&device_copies] { return wait_for(device_copies); };
  for (const TensorPart& part : parts.tensors) {
    background::LiveTensor& tensor = live.tensors.emplace_back();
    tensor.view = view_of(part, part.rows);
    tensor.view.bytes = {};
    if (!part.rows.defined() || part.rows.numel() == 0) {
      continue;
    }
    tensor.changes_at_once = !part.path.starts_with(kOptimizerState) && !parameter_keys.contains(part.state_dict_key);
    tensor.is_copy = !part.rows.is_cpu();
    const at::Tensor host =
        tensor.is_copy ? device_copies.copy(part.path, part.rows, tensor.changes_at_once) : part.rows;
    tensor.values = values_of(host);
    live.owners.push_back(std::make_shared<const at::Tensor>(part.rows));
  }
  return live;
}

}  // namespace rollcall::checkpoint
