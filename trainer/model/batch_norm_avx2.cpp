#include "trainer/model/batch_norm_kernels.h"

#if defined(__x86_64__)
#define ROLLCALL_BATCH_NORM_TARGET __attribute__((target("avx2,fma")))
#define ROLLCALL_BATCH_NORM_SET kAvx2BatchNorm
#define ROLLCALL_BATCH_NORM_NAME "avx2"
#include "trainer/model/batch_norm_loops.h"
#endif
