#include "trainer/checkpoint/exchange/strided_copy.h"

#include <algorithm>
#include <cstring>

namespace rollcall::checkpoint::exchange {

bool lies_within(const Window& window, std::int64_t elements) {
  std::int64_t count = 1;
  std::int64_t last = window.offset;
  bool bounded = window.offset >= 0 && window.strides.size() == window.shape.size();
  for (std::size_t i = 0; bounded && i < window.shape.size(); ++i) {
    std::int64_t reach = 0;
    bounded = window.shape[i] >= 0 && window.strides[i] >= 0;
    if (window.shape[i] == 0) {
      count = 0;
      continue;
    }
    bounded = bounded && !__builtin_mul_overflow(window.shape[i] - 1, window.strides[i], &reach) &&
              !__builtin_add_overflow(last, reach, &last) && !__builtin_mul_overflow(count, window.shape[i], &count);
  }
  return bounded && (count == 0 ? window.offset <= elements : last < elements && count <= elements);
}

bool is_contiguous(const Window& window) {
  if (std::ranges::find(window.shape, 0) != window.shape.end()) {
    return true;
  }
  std::int64_t expected = 1;
  for (std::size_t i = window.shape.size(); i-- > 0;) {
    if (window.shape[i] != 1 && window.strides[i] != expected) {
      return false;
    }
    expected *= window.shape[i];
  }
  return true;
}

void copy_window(const Window& window, std::size_t size, std::span<const std::byte> storage, std::span<std::byte> out) {
  std::vector<std::int64_t> index(window.shape.size(), 0);
  std::int64_t at = window.offset;
  for (std::size_t done = 0; done < out.size(); done += size) {
    std::memcpy(out.data() + done, storage.data() + static_cast<std::size_t>(at) * size, size);
    for (std::size_t i = index.size(); i-- > 0;) {
      if (window.shape[i] == 1) {
        continue;  // its stride means nothing, and may be any number
      }
      at += window.strides[i];
      if (++index[i] < window.shape[i]) {
        break;
      }
      at -= window.strides[i] * window.shape[i];
      index[i] = 0;
    }
  }
}

}  // namespace rollcall::checkpoint::exchange
