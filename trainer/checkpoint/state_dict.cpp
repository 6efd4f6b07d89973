#include "trainer/checkpoint/state_dict.h"

#include <map>

namespace rollcall::checkpoint {
namespace {

void collect(const torch::nn::Module& module, const std::string& prefix, std::vector<NamedTensor>& entries) {
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    entries.push_back({prefix + parameter.key(), parameter.value()});
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    entries.push_back({prefix + buffer.key(), buffer.value()});
  }
  for (const auto& child : module.named_children()) {
    collect(*child.value(), prefix + child.key() + ".", entries);
  }
}

}  // namespace

std::vector<NamedTensor> state_dict(const torch::nn::Module& model) {
  std::vector<NamedTensor> entries;
  collect(model, "", entries);
  return entries;
}

std::vector<std::string> parameter_keys(const torch::nn::Module& model, const torch::optim::Optimizer& optimizer) {
  std::map<const void*, std::string> key_of;
  for (const auto& parameter : model.named_parameters()) {
    key_of[parameter.value().unsafeGetTensorImpl()] = parameter.key();
  }
  std::vector<std::string> keys;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto found = key_of.find(parameter.unsafeGetTensorImpl());
      keys.push_back(found == key_of.end() ? "" : found->second);
    }
  }
  return keys;
}

}  // namespace rollcall::checkpoint
