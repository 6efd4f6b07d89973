#pragma once

#include "trainer/checkpoint/format/dtype.h"
#include "trainer/storage/hdf5_handle.h"

namespace rollcall::checkpoint::format {

/// File types: little-endian; bfloat16 as uint16 and bool as uint8 (the `dtype` attribute tells); float16 as IEEE 754
/// binary16. The same type serves in memory, so bytes go through unconverted.
[[nodiscard]] storage::Handle hdf5_type(DType dtype);
}  // namespace rollcall::checkpoint::format
