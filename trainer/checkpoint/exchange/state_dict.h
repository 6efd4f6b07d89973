#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/checkpoint/format/dtype.h"

namespace rollcall::checkpoint::exchange {

/// One parameter or buffer: row-major, contiguous, little-endian. The bytes belong to somebody else and outlive it.
struct StateTensor {
  std::string key;  ///< "layer1.0.conv1.weight"
  format::DType dtype = format::DType::Float32;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::span<const std::byte> bytes;
};

/// A state dict that was read, together with the memory that its tensors point into. Move only.
struct StateDict {
  std::vector<StateTensor> tensors;  ///< in the file's order
  std::vector<std::unique_ptr<std::byte[]>> storage;
};

/// Bytes of a tensor; nothing for a negative dimension or where 63 bits do not hold the number.
[[nodiscard]] std::optional<std::uint64_t> byte_count(format::DType dtype, std::span<const std::int64_t> shape);

/// Takes "module." (DistributedDataParallel) and "_orig_mod." (torch.compile) off all keys, where all have them.
void remove_wrapper_prefixes(StateDict& state);

}  // namespace rollcall::checkpoint::exchange
