#include "trainer/model/batch_norm_kernels.h"

#define ROLLCALL_BATCH_NORM_TARGET
#define ROLLCALL_BATCH_NORM_SET kPortableBatchNorm
#define ROLLCALL_BATCH_NORM_NAME "portable"
#include "trainer/model/batch_norm_loops.h"
