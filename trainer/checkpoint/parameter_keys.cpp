#include "trainer/checkpoint/parameter_keys.h"

#include <map>

namespace rollcall::checkpoint {

std::vector<std::string> parameter_keys(const torch::OrderedDict<std::string, at::Tensor>& named,
                                        const torch::optim::Optimizer& optimizer) {
  std::map<const void*, std::string> key_of;
  for (const auto& parameter : named) {
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
