#pragma once

#include <cstdint>
#include <initializer_list>

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/merging.h"

// launch_for_each(), launch_reduction() and launch_merging_reduction() make kernels of bodies; `Half` and `BFloat16`
// are the 16-bit types. Other compilers than nvcc make functions for the host from the same sources, for tests, which
// include tests/support/launch_on_host.h before.
#ifdef __CUDACC__
#include "trainer/device/cuda/kernels/launch_on_gpu.h"
#endif

namespace rollcall::device::kernels {

/// Calls a body's run() on every thread of the blocks of its tiling.
template <typename Body>
Status launch_tiles(const Body& body, Stream stream) {
  const Tiling& tiling = body.tiling;
  const Grid grid(static_cast<unsigned>(tiling.channel_blocks), static_cast<unsigned>(tiling.row_blocks));
  return launch_for_each(body, grid, stream);
}

/// Makes the results of blocks, and merges them: in the same kernel with `counters`, otherwise in one of its own.
template <typename Body, typename Merging>
Status launch_merged_reduction(const Body& body, const Merging& merging, std::uint32_t* counters, Stream stream) {
  if (counters != nullptr) {
    return launch_merging_reduction(body, merging, counters, stream);
  }
  const Status status = launch_reduction(body, stream);
  return status != kSuccess ? status : launch_reduction(merging, stream);
}

/// Returns whether no pointer is null and all are aligned to `bytes`.
inline bool lie_on(std::uintptr_t bytes, std::initializer_list<const void*> pointers) {
  for (const void* const pointer : pointers) {
    if (pointer == nullptr || reinterpret_cast<std::uintptr_t>(pointer) % bytes != 0) {
      return false;
    }
  }
  return true;
}

inline bool valid(const Shape& shape, std::initializer_list<const void*> activations) {
  return shape.rows >= 0 && shape.rows < kMostRows && shape.channels >= 1 &&
         (shape.rows == 0 || lie_on(16, activations));
}

/// Calls run.operator()<T>() with the type of `type`.
template <typename Run>
Status with_type(ElementType type, const Run& run) {
  switch (type) {
    case ElementType::Float32:
      return run.template operator()<float>();
    case ElementType::Float16:
      return run.template operator()<Half>();
    case ElementType::BFloat16:
      return run.template operator()<BFloat16>();
  }
  return kInvalidValue;
}

/// Calls run.operator()<T, K>(tiling) with the most elements at once that a row allows, and at most kMost. That does
/// not change which rows a thread adds up, so results do not depend on it.
template <unsigned kMost = 8, typename Run>
Status with_vector(const Shape& shape, const Run& run) {
  return with_type(shape.type, [&]<typename T>() {
    if (shape.channels % kVector<T> != 0) {
      return run.template operator()<T, 1>(tiling_of(shape.rows, shape.channels, 1));
    }
    constexpr unsigned K = std::min(kVector<T>, kMost);
    Tiling tiling = tiling_of(shape.rows, shape.channels, kVector<T>);
    tiling.channel_blocks *= static_cast<int>(kVector<T> / K);
    return run.template operator()<T, K>(tiling);
  });
}

}  // namespace rollcall::device::kernels
