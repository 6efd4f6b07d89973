#include "trainer/model/state.h"

namespace rollcall::model {
namespace {

void append_state(const torch::nn::Module& module, const std::string& prefix,
                  torch::OrderedDict<std::string, at::Tensor>& state) {
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    state.insert(prefix + parameter.key(), parameter.value());
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    state.insert(prefix + buffer.key(), buffer.value());
  }
  for (const auto& child : module.named_children()) {
    append_state(*child.value(), prefix + child.key() + ".", state);
  }
}

}  // namespace

torch::OrderedDict<std::string, at::Tensor> named_state(const torch::nn::Module& module) {
  torch::OrderedDict<std::string, at::Tensor> state;
  append_state(module, "", state);
  return state;
}

std::vector<std::string> state_keys(const torch::nn::Module& module) { return named_state(module).keys(); }

void use_channels_last(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters()) {
    if (parameter.dim() == 4) {
      const at::Tensor values = parameter.data().contiguous(at::MemoryFormat::ChannelsLast);
      // contiguous() returns a 1x1 weight with the strides that it had: they are one of several right answers. A factor
      // [1, C, 1, 1] of a script keeps them, as its gradient has them.
      const bool is_kernel = parameter.size(0) > 1;
      parameter.set_data(
          is_kernel ? values.as_strided(values.sizes(), c10::get_channels_last_strides_2d(values.sizes())) : values);
    }
  }
}

}  // namespace rollcall::model
