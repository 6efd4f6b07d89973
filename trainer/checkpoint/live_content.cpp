#include "trainer/checkpoint/live_content.h"

#include <memory>
#include <string_view>

namespace rollcall::checkpoint {
namespace {

constexpr std::string_view kOptimizerState = "/optimizer/state/";

background::StridedBytes values_of(const at::Tensor& host) {
  return {static_cast<const std::byte*>(host.const_data_ptr()), static_cast<std::size_t>(host.element_size()),
          host.sizes().vec(), host.strides().vec()};
}

}  // namespace

background::LiveContent live_content(const StateParts& parts, const std::set<std::string>& parameter_keys) {
  background::LiveContent live;
  live.values = parts.values;
  live.tensors.reserve(parts.tensors.size());
  for (const TensorPart& part : parts.tensors) {
    background::LiveTensor& tensor = live.tensors.emplace_back();
    tensor.view = view_of(part, part.rows);
    tensor.view.bytes = {};
    if (!part.rows.defined() || part.rows.numel() == 0) {
      continue;
    }
    const auto host = std::make_shared<const at::Tensor>(part.rows.to(at::kCPU));
    tensor.values = values_of(*host);
    tensor.changes_at_once = !part.path.starts_with(kOptimizerState) && !parameter_keys.contains(part.state_dict_key);
    live.owners.push_back(host);
  }
  return live;
}

}  // namespace rollcall::checkpoint
