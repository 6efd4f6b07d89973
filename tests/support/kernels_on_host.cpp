#include "tests/support/kernels_on_host.h"

#include <c10/util/Exception.h>

#include "tests/support/launch_on_host.h"
#include "trainer/device/cuda/kernels/batch_norm.cu"
#include "trainer/device/cuda/kernels/elementwise.cu"
#include "trainer/device/cuda/kernels/statistics.cu"

namespace rollcall::testing_support {
namespace {

namespace kernels = device::kernels;

template <auto kLaunch, typename What>
void run(const What& what) {
  TORCH_CHECK(kLaunch(what, nullptr) == kernels::kSuccess, "a kernel was given what it does not take");
}

}  // namespace

const device::Kernels& kernels_on_host() {
  static constexpr device::Kernels kTable{
      .workspace_bytes = &kernels::workspace_bytes,
      .mask_bytes = &kernels::mask_bytes,
      .batch_norm_statistics = &run<&kernels::batch_norm_statistics>,
      .merge_statistics = &run<&kernels::merge_statistics>,
      .batch_norm_add_relu_forward = &run<&kernels::batch_norm_add_relu_forward>,
      .batch_norm_add_relu_backward_sums = &run<&kernels::batch_norm_add_relu_backward_sums>,
      .batch_norm_add_relu_backward_input = &run<&kernels::batch_norm_add_relu_backward_input>,
      .normalise_images = &run<&kernels::normalise_images>,
      .cast_and_scale = &run<&kernels::cast_and_scale>};
  return kTable;
}

}  // namespace rollcall::testing_support
