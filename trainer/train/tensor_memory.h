#pragma once

namespace rollcall::train {

/// Sets the process up to keep the memory of tensors and to use it again for the next ones of their size: malloc's
/// large blocks come from the heap and stay there, and tensors take them in a way that lets a freed one serve again.
///
/// LibTorch aligns tensors with posix_memalign(), for which glibc 2.36 needs a larger hole than the block it
/// left, so that with blocks in between a heap grows to twice what it holds and more. Here tensors
/// are aligned (to c10::gAlignment) within an ordinary block. For the whole process and its whole life; call it before
/// tensors are made. Failed allocations throw c10::Error as LibTorch's own do.
void keep_tensor_memory();

}  // namespace rollcall::train
