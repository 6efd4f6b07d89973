#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rollcall::checkpoint::format {

/// The memory layout of a tensor: element (i, j, ...) is at data + (i * strides[0] + j * strides[1] ...) *
/// element_bytes. Does not own the memory.
struct StridedBytes {
  const std::byte* data = nullptr;
  std::size_t element_bytes = 1;
  std::vector<std::int64_t> sizes;    ///< empty: a scalar
  std::vector<std::int64_t> strides;  ///< in elements, as many as sizes, none negative; any number for a size of 1
};

/// Returns the bytes of all elements.
[[nodiscard]] std::size_t total_bytes(const StridedBytes& tensor);

/// Copies the elements into `to` in row-major order. A channels-last tensor of 4-byte elements takes about twice the
/// time of a plain copy. `to` has total_bytes(from). Pure; any thread.
void copy_row_major(const StridedBytes& from, std::span<std::byte> to);

/// Returns whether a tensor of these sizes and strides is row-major without gaps, so that a plain copy suffices.
[[nodiscard]] bool is_contiguous(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides);

/// Returns whether every element of such a tensor, whose first is element `offset` of a storage of `elements`, is
/// within the storage, and no element is used twice as far as counting shows: no negative numbers, no more elements
/// than the storage has. For unchecked sizes and strides.
[[nodiscard]] bool lies_within(std::int64_t offset, const std::vector<std::int64_t>& sizes,
                               const std::vector<std::int64_t>& strides, std::int64_t elements);

}  // namespace rollcall::checkpoint::format
