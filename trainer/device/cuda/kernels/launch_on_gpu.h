#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/tiling.h"

namespace rollcall::device::kernels {

using Half = __half;
using BFloat16 = __nv_bfloat16;
using Grid = dim3;  ///< blocks

static_assert(kSuccess == cudaSuccess && kInvalidValue == cudaErrorInvalidValue);

/// Limits a thread to 64 registers.
inline constexpr int kBlocksOnAMultiprocessor = 2;

/// Calls the body's run() on every thread.
template <typename Body>
__global__ void __launch_bounds__(kThreads, kBlocksOnAMultiprocessor)
    for_each_thread(const __grid_constant__ Body body) {
  body.run(ThreadIndex{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(threadIdx.x)});
}

/// Calls the body's begin() on every thread, merges the lanes, then calls its end() on the first lane.
template <typename Body>
__global__ void __launch_bounds__(kThreads, kBlocksOnAMultiprocessor) reduce_blocks(const __grid_constant__ Body body) {
  __shared__ typename Body::State shared[kThreads];
  const ThreadIndex place{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(threadIdx.x)};
  shared[place.thread] = body.begin(place);
  for (int half = body.tiling.lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    merge_lanes(body.tiling, place.thread, half, shared);
  }
  if (body.tiling.lane(place.thread) == 0) {
    body.end(place, shared[place.thread]);
  }
}

/// Launches `kernel` and returns the status of this launch alone, not of earlier errors on this thread.
template <typename Body>
Status launch(void (*kernel)(Body), const Body& body, Grid grid, Stream stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, body);
}

template <typename Body>
Status launch_for_each(const Body& body, Grid grid, Stream stream) {
  return launch(&for_each_thread<Body>, body, grid, stream);
}

template <typename Body>
Status launch_reduction(const Body& body, Stream stream) {
  const Tiling& tiling = body.tiling;
  const Grid grid(static_cast<unsigned>(tiling.channel_blocks), static_cast<unsigned>(tiling.row_blocks));
  return launch(&reduce_blocks<Body>, body, grid, stream);
}

}  // namespace rollcall::device::kernels
