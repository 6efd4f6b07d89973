#include "trainer/model/batch_norm_kernels.h"

#include <vector>

namespace rollcall::model {

std::span<const BatchNormKernelSet* const> usable_batch_norm_kernels() {
  static const std::vector<const BatchNormKernelSet*> usable = [] {
    std::vector<const BatchNormKernelSet*> found{&kPortableBatchNorm};
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2) {
      found.push_back(&kAvx2BatchNorm);
    }
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      found.push_back(&kAvx512BatchNorm);
    }
#endif
    return found;
  }();
  return usable;
}

}  // namespace rollcall::model
