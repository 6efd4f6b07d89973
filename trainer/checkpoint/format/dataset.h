#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/checkpoint/format/content.h"
#include "trainer/storage/hdf5_handle.h"

namespace rollcall::checkpoint::format {

/// A data set about to be written: the common form of tensors and values.
struct Dataset {
  std::string path;
  storage::Handle type;
  std::vector<hsize_t> shape;        ///< empty: a scalar
  std::span<const std::byte> bytes;  ///< into the tensor, or into `owned`
  std::vector<std::byte> owned;      ///< the bytes of a value
  std::uint32_t crc32c = 0;
  const TensorView* tensor = nullptr;  ///< null for values
};

[[nodiscard]] Dataset dataset_of(const TensorView& tensor);
[[nodiscard]] Dataset dataset_of(const std::string& path, const Value& value);

}  // namespace rollcall::checkpoint::format
