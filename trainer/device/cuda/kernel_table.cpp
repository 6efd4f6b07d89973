#include "trainer/device/cuda/kernel_table.h"

#ifdef ROLLCALL_CUDA_KERNELS
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "trainer/device/cuda/kernels/kernels.h"
#endif

namespace rollcall::device {

#ifdef ROLLCALL_CUDA_KERNELS
namespace {

template <auto kLaunch, typename What>
void launch(const What& what) {
  C10_CUDA_CHECK(static_cast<cudaError_t>(kLaunch(what, c10::cuda::getCurrentCUDAStream().stream())));
}

}  // namespace

const Kernels* own_kernels() {
  static constexpr Kernels kTable{
      .workspace_bytes = &kernels::workspace_bytes,
      .mask_bytes = &kernels::mask_bytes,
      .batch_norm_statistics = &launch<&kernels::batch_norm_statistics>,
      .merge_statistics = &launch<&kernels::merge_statistics>,
      .batch_norm_add_relu_forward = &launch<&kernels::batch_norm_add_relu_forward>,
      .batch_norm_add_relu_backward_sums = &launch<&kernels::batch_norm_add_relu_backward_sums>,
      .batch_norm_add_relu_backward_input = &launch<&kernels::batch_norm_add_relu_backward_input>,
      .normalise_images = &launch<&kernels::normalise_images>,
      .cast_and_scale = &launch<&kernels::cast_and_scale>};
  return &kTable;
}
#else
const Kernels* own_kernels() { return nullptr; }
#endif

}  // namespace rollcall::device
