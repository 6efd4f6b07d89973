#include "trainer/checkpoint/parameter_state.h"

namespace rollcall::checkpoint {
namespace {

std::string state_path(const std::string& key, const std::string& name) {
  return "/optimizer/state/" + key + "/" + name;
}

}  // namespace

void StateSink::add(const std::string& name, const at::Tensor& tensor) const {
  const at::Tensor whole = sharding_ != nullptr ? sharding_->gather(key_, tensor) : tensor;
  if (whole.defined()) {
    builder_.add(state_path(key_, name), "", whole);
  }
}

void StateSink::add(const std::string& name, std::int64_t number) const {
  builder_.content.values[state_path(key_, name)] = number;
}

std::string StateSource::path(const std::string& name) const { return state_path(key_, name); }

at::Tensor StateSource::tensor(const std::string& name) const {
  const format::TensorView* const view = stored_.tensor(path(name));
  if (view == nullptr) {
    return {};
  }
  const torch::NoGradGuard no_grad;
  const at::Tensor whole = as_tensor(*view);
  const at::Tensor source = sharding_ != nullptr ? sharding_->part_of(key_, whole) : whole;
  TORCH_CHECK(parameter_.sizes() == source.sizes(), path(name), " is ", format::shape_text(source.sizes()),
              " there and ", format::shape_text(parameter_.sizes()), " here");
  return torch::empty_like(parameter_, parameter_.options().dtype(source.scalar_type()).requires_grad(false))
      .copy_(source);
}

std::optional<std::int64_t> StateSource::number(const std::string& name) const {
  const auto* const value = stored_.value<std::int64_t>(path(name));
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

}  // namespace rollcall::checkpoint
