// Operators that the stand-in device computes as late as it copies, so that who does not wait for them is noticed:
// those of streams beside the one that computes, and those that a GPU does in one kernel for many tensors.
#include <torch/library.h>

#include "tests/support/stand_in_device.h"
#include "tests/support/stand_in_streams.h"

namespace rollcall::testing_support::stand_in {
namespace {

/// `other`: a number of the host, or on the device.
at::Tensor& div_(at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(!other.is_cpu() || other.dim() == 0, "div_: Expected all tensors to be on the same device");
  const auto guard = on_device_of({self, other});
  enqueue([to = place_of(self), by = other.is_cpu() ? other.clone() : place_of(other)] {
    const torch::NoGradGuard no_grad;
    to.div_(by);
  });
  return self;
}

void foreach_copy_(at::TensorList to, at::TensorList from, bool /*non_blocking*/) {
  const auto guard = on_device_of({to, from});
  std::vector<std::pair<at::Tensor, at::Tensor>> places;
  for (std::size_t i = 0; i < to.size(); ++i) {
    TORCH_CHECK(!to[i].is_cpu() && !from[i].is_cpu(), "_foreach_copy_: Expected all tensors to be on the device");
    places.emplace_back(place_of(to[i]), place_of(from[i]));
  }
  enqueue([places] {
    const torch::NoGradGuard no_grad;
    for (const auto& [target, source] : places) {
      target.copy_(source);
    }
  });
  streams().count_copy();
  if (to.front().scalar_type() != from.front().scalar_type()) {
    streams().count_cast();
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("div_.Tensor", &div_);
  m.impl("_foreach_copy_", &foreach_copy_);
}

}  // namespace
}  // namespace rollcall::testing_support::stand_in
