// Operators that the stand-in device computes as late as it copies, so that who does not wait for them is noticed:
// those of streams beside the one that computes.
#include <torch/library.h>

#include "tests/support/stand_in_device.h"

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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("div_.Tensor", &div_); }

}  // namespace
}  // namespace rollcall::testing_support::stand_in
