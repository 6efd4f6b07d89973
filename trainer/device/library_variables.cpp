#include "trainer/device/library_variables.h"

#include <cstdlib>

#include "trainer/device/amx.h"

namespace rollcall::device {

void set_library_variables(bool deterministic) {
  avoid_unusable_amx();
  constexpr int kOverwrite = 1;
  for (const char* const name :
       {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT",
        "TORCH_NCCL_RETHROW_CUDA_ERRORS", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_TEARDOWN_ON_TIMEOUT"}) {
    setenv(name, "0", kOverwrite);
  }
  if (deterministic) {
    constexpr int kKeepTheUsers = 0;
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", kKeepTheUsers);
  }
}

Result<void> check_library_variables(const Environment& environment, bool tf32, bool older) {
  if (older && tf32 && environment.get("PYTORCH_TUNABLEOP_ENABLED") == "1") {
    return fail("PYTORCH_TUNABLEOP_ENABLED", "1", "LibTorch 2.11 cannot tune matrix products that use TF32",
                "unsetting it, or --tf32=off", ErrorKind::Usage);
  }
  return {};
}

}  // namespace rollcall::device
