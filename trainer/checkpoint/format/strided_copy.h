#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rollcall::checkpoint::format {

/// Where the elements of a tensor lie: element (i, j, ...) at data + (i * strides[0] + j * strides[1] ...) *
/// element_bytes. The memory is somebody else's.
struct StridedBytes {
  const std::byte* data = nullptr;
  std::size_t element_bytes = 1;
  std::vector<std::int64_t> sizes;    ///< empty: a scalar
  std::vector<std::int64_t> strides;  ///< in elements, as many as sizes, none negative; of a size of 1 any number
};

/// Bytes of all elements.
[[nodiscard]] std::size_t total_bytes(const StridedBytes& tensor);

/// Copies the elements into `to` in row-major order: as much as a channels-last tensor of 4 bytes an element takes
/// about twice the time of a plain copy. `to` has total_bytes(from). Pure; any thread.
void copy_row_major(const StridedBytes& from, std::span<std::byte> to);

/// Whether a tensor of these sizes and strides is row-major without gaps: then a plain copy does.
[[nodiscard]] bool is_contiguous(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides);

/// Whether every element of such a tensor, the first one being element `offset` of a storage of `elements`, lies in the
/// storage, none of them twice as far as counting tells: nothing negative, no more elements than the storage has. For
/// sizes and strides that nobody has checked.
[[nodiscard]] bool lies_within(std::int64_t offset, const std::vector<std::int64_t>& sizes,
                               const std::vector<std::int64_t>& strides, std::int64_t elements);

}  // namespace rollcall::checkpoint::format
