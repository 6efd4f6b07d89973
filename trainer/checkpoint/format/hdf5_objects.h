#pragma once

#include "trainer/checkpoint/format/dtype.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/storage/hdf5_handle.h"

namespace rollcall::checkpoint::format {

/// File types: little-endian; bfloat16 as uint16 and bool as uint8 (the `dtype` attribute tells); float16 as IEEE 754
/// binary16. The bytes go through unconverted.
[[nodiscard]] storage::Handle hdf5_type(DType dtype);

/// The file type of a tensor or value; an invalid handle where this version does not know its type.
[[nodiscard]] storage::Handle hdf5_type(const ManifestEntry& entry);

}  // namespace rollcall::checkpoint::format
