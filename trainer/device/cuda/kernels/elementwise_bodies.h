#pragma once

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/tiling.h"

namespace rollcall::device::kernels {

// Bodies of passes over elements, without channels or with three: K elements a thread at a time, the rest one by one.

/// Returns the number of blocks of kThreads threads for `count` elements.
inline int blocks_for(std::int64_t count, unsigned k) {
  const std::int64_t vectors = count / k + 1;
  return static_cast<int>(std::min<std::int64_t>((vectors + kThreads - 1) / kThreads, kBlocks * 4));
}

/// Calls run(i, K as a type) for each i at which a vector of this thread begins, and run(i, 1 as a type) for single
/// elements.
template <unsigned K>
struct Elements {
  std::int64_t count;
  int blocks;

  template <unsigned kSize>
  struct Size {
    static constexpr unsigned value = kSize;
  };

  template <typename Run>
  ROLLCALL_HOST_DEVICE void each(const ThreadIndex& place, const Run& run) const {
    const std::int64_t vectors = count / K;
    const std::int64_t first = static_cast<std::int64_t>(place.block_x) * kThreads + place.thread;
    for (std::int64_t i = first; i < vectors; i += static_cast<std::int64_t>(blocks) * kThreads) {
      run(i * K, Size<K>{});
    }
    if (first < count - vectors * K) {
      run(vectors * K + first, Size<1>{});
    }
  }
};

template <typename T>
struct ImageNormalisation {
  static constexpr unsigned K = kVector<T>;
  Elements<K> elements;
  const std::uint8_t* levels;
  T* images;
  float scale[3];
  float bias[3];

  ROLLCALL_HOST_DEVICE void run(const ThreadIndex& place) const {
    elements.each(place, [&](std::int64_t at, auto size) {
      constexpr unsigned kSize = decltype(size)::value;
      const auto from = load<kSize>(levels + at);
      Vector<T, kSize> to;
      int channel = static_cast<int>(at % 3);
      for (unsigned k = 0; k < kSize; ++k) {
        // Selected, not indexed: kernel parameters that are indexed are copied to memory first.
        const float by = channel == 0 ? scale[0] : channel == 1 ? scale[1] : scale[2];
        const float plus = channel == 0 ? bias[0] : channel == 1 ? bias[1] : bias[2];
        to.values[k] = static_cast<T>(normalised_level(from.values[k], by, plus));
        channel = channel == 2 ? 0 : channel + 1;
      }
      store(images + at, to);
    });
  }
};

template <typename From, typename To>
struct ScaledCast {
  static constexpr unsigned K = kVector<From> < kVector<To> ? kVector<From> : kVector<To>;
  Elements<K> elements;
  const From* from;
  To* to;
  const float* scale;

  ROLLCALL_HOST_DEVICE void run(const ThreadIndex& place) const {
    const float by = *scale;
    elements.each(place, [&](std::int64_t at, auto size) {
      constexpr unsigned kSize = decltype(size)::value;
      const auto values = load<kSize>(from + at);
      Vector<To, kSize> result;
      for (unsigned k = 0; k < kSize; ++k) {
        result.values[k] = scaled<To>(values.values[k], by);
      }
      store(to + at, result);
    });
  }
};

}  // namespace rollcall::device::kernels
