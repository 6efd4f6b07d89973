#pragma once

namespace rollcall::device {

/// Under one of NVIDIA's profilers (`nsys profile rollcall-train ...`): from now on what PyTorch's RecordFunction is
/// told by the program and by autograd's nodes is an NVTX range. Elsewhere nothing happens, and nothing is slower. Once
/// per process, before other threads compute. Not run under nsys.
void mark_nvtx_ranges();

}  // namespace rollcall::device
