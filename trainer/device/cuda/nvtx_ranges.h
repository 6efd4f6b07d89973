#pragma once

namespace rollcall::device {

/// Under one of NVIDIA's profilers (`nsys profile rollcall-train ...`) turns each span that the program and autograd's
/// nodes record with PyTorch's RecordFunction into an NVTX range. Otherwise does nothing and costs nothing. Call it
/// once per process, before other threads compute. Not tested under nsys.
void mark_nvtx_ranges();

}  // namespace rollcall::device
