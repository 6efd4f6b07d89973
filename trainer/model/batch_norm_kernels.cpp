#include "trainer/model/batch_norm_kernels.h"

#include <vector>

#include "runtime/base/bfloat16.h"

#define ROLLCALL_BATCH_NORM_ISA portable
#define ROLLCALL_BATCH_NORM_TARGET
#define ROLLCALL_BATCH_NORM_SET kPortableBatchNorm
#include "trainer/model/batch_norm_loops.h"

#if defined(__x86_64__)
#define ROLLCALL_BATCH_NORM_ISA avx2
#define ROLLCALL_BATCH_NORM_TARGET __attribute__((target("avx2,fma")))
#define ROLLCALL_BATCH_NORM_SET kAvx2BatchNorm
#include "trainer/model/batch_norm_loops.h"

#define ROLLCALL_BATCH_NORM_ISA avx512
#define ROLLCALL_BATCH_NORM_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")))
#define ROLLCALL_BATCH_NORM_SET kAvx512BatchNorm
#include "trainer/model/batch_norm_loops.h"
#endif

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
