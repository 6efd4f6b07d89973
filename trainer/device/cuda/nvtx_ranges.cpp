#include "trainer/device/cuda/nvtx_ranges.h"

#include <ATen/record_function.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define ROLLCALL_NVTX
#endif

#include <cstdlib>
#include <memory>

namespace rollcall::device {
#ifdef ROLLCALL_NVTX
namespace {

/// A range that may end on another thread: a collective's.
struct AsynchronousRange final : at::ObserverContext {
  nvtxRangeId_t id = 0;
};

std::unique_ptr<at::ObserverContext> begin_range(const at::RecordFunction& function) {
  if (!function.isAsync()) {
    nvtxRangePushA(function.name());
    return nullptr;
  }
  auto range = std::make_unique<AsynchronousRange>();
  range->id = nvtxRangeStartA(function.name());
  return range;
}

void end_range(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context != nullptr) {
    nvtxRangeEnd(static_cast<const AsynchronousRange&>(*context).id);
  } else {
    nvtxRangePop();
  }
}

/// Returns whether a profiler is attached. Nsight Systems sets the first variable, which GROMACS and NVTX.jl check,
/// too; the second names NVTX's tool (nvtx3/nvtxDetail/nvtxInit.h).
bool is_profiled() {
  return std::getenv("NSYS_PROFILING_SESSION_ID") != nullptr || std::getenv("NVTX_INJECTION64_PATH") != nullptr;
}

}  // namespace

void mark_nvtx_ranges() {
  if (is_profiled()) {
    static const at::CallbackHandle marked =
        at::addGlobalCallback(at::RecordFunctionCallback(begin_range, end_range)
                                  .scopes({at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION}));
    (void)marked;
  }
}

#else
void mark_nvtx_ranges() {}
#endif

}  // namespace rollcall::device
