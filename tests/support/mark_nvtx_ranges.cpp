// For LD_PRELOAD: a process that marks its ranges for a tool of NVIDIA's, as the plugin for CUDA does, on CPUs.
#include "trainer/device/cuda/nvtx_ranges.h"

namespace {
[[gnu::constructor]] void mark() { rollcall::device::mark_nvtx_ranges(); }
}  // namespace
