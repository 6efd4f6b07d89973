#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/tiling.h"

namespace rollcall::device::kernels {

// How bodies become kernels. Only nvcc compiles this.

/// What makes 64 registers of a thread the most there are.
inline constexpr int kBlocksOnAMultiprocessor = 2;

/// A body's run() for every thread.
template <typename Body>
__global__ void __launch_bounds__(kThreads, kBlocksOnAMultiprocessor)
    for_each_thread(const __grid_constant__ Body body) {
  body.run(Place{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(threadIdx.x)});
}

/// A body's begin() for every thread, then the lanes together, then its end() for the first lane.
template <typename Body>
__global__ void __launch_bounds__(kThreads, kBlocksOnAMultiprocessor) reduce_blocks(const __grid_constant__ Body body) {
  __shared__ typename Body::State shared[kThreads];
  const Place place{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(threadIdx.x)};
  shared[place.thread] = body.begin(place);
  for (int half = body.tiling.lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    merge_lanes(body.tiling, place.thread, half, shared);
  }
  if (body.tiling.lane(place.thread) == 0) {
    body.end(place, shared[place.thread]);
  }
}

inline dim3 grid_of(const Tiling& tiling) {
  return {static_cast<unsigned>(tiling.channel_blocks), static_cast<unsigned>(tiling.row_blocks)};
}

/// What the launch itself came to, whatever went wrong before it on this thread.
template <typename Body>
Status launch(void (*kernel)(Body), const Body& body, dim3 grid, Stream stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, body);
}

template <typename Body>
Status launch_for_each(const Body& body, dim3 grid, Stream stream) {
  return launch(&for_each_thread<Body>, body, grid, stream);
}

template <typename Body>
Status launch_reduction(const Body& body, Stream stream) {
  return launch(&reduce_blocks<Body>, body, grid_of(body.tiling), stream);
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
      return run.template operator()<__half>();
    case ElementType::BFloat16:
      return run.template operator()<__nv_bfloat16>();
  }
  return cudaErrorInvalidValue;
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
