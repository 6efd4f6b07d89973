#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rollcall::checkpoint::background {

/// Where the elements of a tensor lie: element (i, j, ...) at data + (i * strides[0] + j * strides[1] ...) *
/// element_bytes. The memory is somebody else's.
struct StridedBytes {
  const std::byte* data = nullptr;
  std::size_t element_bytes = 1;
  std::vector<std::int64_t> sizes;    ///< empty: a scalar
  std::vector<std::int64_t> strides;  ///< in elements, as many as sizes, none negative
};

/// Bytes of all elements.
[[nodiscard]] std::size_t total_bytes(const StridedBytes& tensor);

/// Copies the elements into `to` in row-major order: as much as a channels-last tensor of 4 bytes an element takes
/// about twice the time of a plain copy. `to` has total_bytes(from). Pure; any thread.
void copy_row_major(const StridedBytes& from, std::span<std::byte> to);

}  // namespace rollcall::checkpoint::background
