#include "trainer/checkpoint/format/strided_copy.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rollcall::checkpoint::format {
namespace {

struct Dimension {
  std::int64_t size;
  std::int64_t stride;
};

/// Returns the same elements in the same order with as few dimensions as possible: adjacent ones are merged, and those
/// of size 1 are dropped.
std::vector<Dimension> merged(const StridedBytes& tensor) {
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    const Dimension next{tensor.sizes[i], tensor.strides[i]};
    if (next.size == 1) {
      continue;
    }
    if (!dimensions.empty() && dimensions.back().stride == next.size * next.stride) {
      dimensions.back() = {dimensions.back().size * next.size, next.stride};
    } else {
      dimensions.push_back(next);
    }
  }
  return dimensions;
}

/// Copies the innermost dimension, with an element size known to the compiler.
template <std::size_t kBytes>
void copy_row(const std::byte* from, std::int64_t count, std::int64_t step, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, kBytes);
    to += kBytes;
    from += step;
  }
}

void copy_row(const std::byte* from, const Dimension& row, std::size_t element_bytes, std::byte* to) {
  const auto step = row.stride * static_cast<std::int64_t>(element_bytes);
  if (row.stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(row.size) * element_bytes);
  } else if (element_bytes == 4) {
    copy_row<4>(from, row.size, step, to);
  } else if (element_bytes == 2) {
    copy_row<2>(from, row.size, step, to);
  } else if (element_bytes == 8) {
    copy_row<8>(from, row.size, step, to);
  } else {
    for (std::int64_t i = 0; i < row.size; ++i, from += step, to += element_bytes) {
      std::memcpy(to, from, element_bytes);
    }
  }
}

/// Copies all `dimensions`; returns the position for the next bytes.
std::byte* copy_from(const std::byte* from, std::span<const Dimension> dimensions, std::size_t element_bytes,
                     std::byte* to) {
  if (dimensions.size() == 1) {
    copy_row(from, dimensions.front(), element_bytes, to);
    return to + static_cast<std::size_t>(dimensions.front().size) * element_bytes;
  }
  const auto step = dimensions.front().stride * static_cast<std::int64_t>(element_bytes);
  for (std::int64_t i = 0; i < dimensions.front().size; ++i) {
    to = copy_from(from, dimensions.subspan(1), element_bytes, to);
    from += step;
  }
  return to;
}

}  // namespace

std::size_t total_bytes(const StridedBytes& tensor) {
  std::size_t bytes = tensor.element_bytes;
  for (const std::int64_t size : tensor.sizes) {
    bytes *= static_cast<std::size_t>(size);
  }
  return bytes;
}

void copy_row_major(const StridedBytes& from, std::span<std::byte> to) {
  assert(to.size() == total_bytes(from) && from.sizes.size() == from.strides.size());
  if (to.empty()) {
    return;
  }
  std::vector<Dimension> dimensions = merged(from);
  if (dimensions.empty()) {
    dimensions.push_back({1, 1});
  }
  copy_from(from.data, dimensions, from.element_bytes, to.data());
}

bool is_contiguous(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  if (std::ranges::find(sizes, 0) != sizes.end()) {
    return true;
  }
  std::int64_t expected = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) {
      return false;
    }
    expected *= sizes[i];
  }
  return true;
}

bool lies_within(std::int64_t offset, const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
                 std::int64_t elements) {
  std::int64_t count = 1;
  std::int64_t last = offset;
  bool bounded = offset >= 0 && strides.size() == sizes.size();
  for (std::size_t i = 0; bounded && i < sizes.size(); ++i) {
    std::int64_t reach = 0;
    bounded = sizes[i] >= 0 && strides[i] >= 0;
    if (sizes[i] == 0) {
      count = 0;
      continue;
    }
    bounded = bounded && !__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) &&
              !__builtin_add_overflow(last, reach, &last) && !__builtin_mul_overflow(count, sizes[i], &count);
  }
  return bounded && (count == 0 ? offset <= elements : last < elements && count <= elements);
}

}  // namespace rollcall::checkpoint::format
