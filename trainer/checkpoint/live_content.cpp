#include "trainer/checkpoint/live_content.h"

#include <memory>
#include <vector>

#include "trainer/checkpoint/format/schema.h"

namespace rollcall::checkpoint {
namespace {

/// Whether a tensor changes only with the optimizer's step.
bool is_of_update(const TensorPart& part, const std::set<std::string>& parameter_keys) {
  return part.path.starts_with("/optimizer/state/") || part.path.starts_with(format::schema::kAverage) ||
         parameter_keys.contains(part.state_dict_key);
}

/// Returns the tensors of a device, in the order of the parts.
std::vector<DeviceCopies::Source> sources_of(const StateParts& parts, const std::set<std::string>& parameter_keys) {
  std::vector<DeviceCopies::Source> sources;
  for (const TensorPart& part : parts.tensors) {
    if (is_on_device(part)) {
      sources.push_back({part.rows, !is_of_update(part, parameter_keys)});
    }
  }
  return sources;
}

format::StridedBytes values_of(const at::Tensor& host) {
  return {static_cast<const std::byte*>(host.const_data_ptr()), static_cast<std::size_t>(host.element_size()),
          host.sizes().vec(), host.strides().vec()};
}

Result<void> wait_for(DeviceCopies& copies) {
  try {
    copies.wait();
  } catch (const c10::Error& error) {
    return fail("checkpoint", "", std::string("copying from the GPU failed: ") + error.what_without_backtrace(),
                "looking for GPU errors in the node's kernel log", ErrorKind::Unavailable);
  }
  return {};
}

}  // namespace

void make_room(const StateParts& parts, const std::set<std::string>& parameter_keys, DeviceCopies& device_copies) {
  device_copies.make_room(sources_of(parts, parameter_keys));
}

background::LiveContent live_content(const StateParts& parts, const std::set<std::string>& parameter_keys,
                                     DeviceCopies& device_copies) {
  background::LiveContent live;
  live.values = parts.values;
  live.tensors.reserve(parts.tensors.size());
  live.wait_arrived = [&device_copies] { return wait_for(device_copies); };
  const std::vector<at::Tensor> copies = device_copies.copy(sources_of(parts, parameter_keys));
  auto copy = copies.begin();
  for (const TensorPart& part : parts.tensors) {
    background::LiveTensor& tensor = live.tensors.emplace_back();
    tensor.view = view_of(part, part.rows);
    tensor.view.bytes = {};
    if (!part.rows.defined() || part.rows.numel() == 0) {
      continue;
    }
    tensor.changes_at_once = !is_of_update(part, parameter_keys);
    tensor.is_copy = is_on_device(part);
    tensor.values = values_of(tensor.is_copy ? *copy++ : part.rows);
    live.owners.push_back(std::make_shared<const at::Tensor>(part.rows));
  }
  return live;
}

}  // namespace rollcall::checkpoint
