#include "trainer/model/batch_norm_kernels.h"

#if defined(__x86_64__)
#define ROLLCALL_BATCH_NORM_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")))
#define ROLLCALL_BATCH_NORM_SET kAvx512BatchNorm
#define ROLLCALL_BATCH_NORM_NAME "avx512"
#include "trainer/model/batch_norm_loops.h"
#endif
