#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rollcall::checkpoint::exchange {

/// A window into `elements` elements: offset and strides in elements.
struct Window {
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< as many as dimensions
};

/// Whether every element of `window` lies in a storage of `elements`, none of them twice as far as counting tells:
/// nothing negative, no more elements than the storage has.
[[nodiscard]] bool lies_within(const Window& window, std::int64_t elements);

/// Whether the window is row-major without gaps.
[[nodiscard]] bool is_contiguous(const Window& window);

/// The window's elements, row-major without gaps, into `out`, which has room for exactly these. `storage` holds what
/// lies_within() was asked for, `size` bytes an element.
void copy_window(const Window& window, std::size_t size, std::span<const std::byte> storage, std::span<std::byte> out);

}  // namespace rollcall::checkpoint::exchange
