#pragma once

#include <cstdint>
#include <initializer_list>

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/tiling.h"

// How bodies become kernels, with `Half` and `BFloat16`, the types of 16 bits: launch_for_each() and
// launch_reduction(). Another compiler than nvcc makes functions of the same sources that compute on the host, for
// tests.
#ifdef __CUDACC__
#include "trainer/device/cuda/kernels/launch_on_gpu.h"
#else
#include "trainer/device/cuda/kernels/launch_on_host.h"
#endif

namespace rollcall::device::kernels {

/// A body's run() for every thread of the blocks of its tiling.
template <typename Body>
Status launch_tiles(const Body& body, Stream stream) {
  const Tiling& tiling = body.tiling;
  const Grid grid(static_cast<unsigned>(tiling.channel_blocks), static_cast<unsigned>(tiling.row_blocks));
  return launch_for_each(body, grid, stream);
}

/// Whether none is null, and all lie on `bytes`.
inline bool lie_on(std::uintptr_t bytes, std::initializer_list<const void*> pointers) {
  for (const void* const pointer : pointers) {
    if (pointer == nullptr || reinterpret_cast<std::uintptr_t>(pointer) % bytes != 0) {
      return false;
    }
  }
  return true;
}

inline bool valid(const Shape& shape, std::initializer_list<const void*> activations) {
  return shape.rows >= 0 && shape.channels >= 1 && (shape.rows == 0 || lie_on(16, activations));
}

/// Calls run.operator()<T>().
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

/// Calls run.operator()<T, K>(tiling), with as many elements at once as a row allows.
template <typename Run>
Status with_vector(const Shape& shape, const Run& run) {
  return with_type(shape.type, [&]<typename T>() {
    return shape.channels % kVector<T> == 0
               ? run.template operator()<T, kVector<T>>(tiling_of(shape.rows, shape.channels, kVector<T>))
               : run.template operator()<T, 1>(tiling_of(shape.rows, shape.channels, 1));
  });
}

}  // namespace rollcall::device::kernels
