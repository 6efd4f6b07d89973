#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/merging.h"

namespace rollcall::device::kernels {

using Half = __half;
using BFloat16 = __nv_bfloat16;
using Grid = dim3;  ///< blocks

static_assert(kSuccess == cudaSuccess && kInvalidValue == cudaErrorInvalidValue);

/// Limits a thread to 64 registers.
inline constexpr int kBlocksOnAMultiprocessor = 2;

__device__ inline ThreadIndex this_thread() {
  return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(threadIdx.x)};
}

/// Calls the body's run() on every thread.
template <typename Body>
__global__ void __launch_bounds__(kThreads, kBlocksOnAMultiprocessor)
    for_each_thread(const __grid_constant__ Body body) {
  body.run(this_thread());
}

/// Calls the body's begin() on every thread, merges the lanes, then calls its end() on the first lane.
template <typename Body>
__device__ void reduce_block(const Body& body, typename Body::State* shared) {
  const ThreadIndex place = this_thread();
  shared[place.thread] = body.begin(place);
  for (int half = body.tiling.lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    merge_lanes(body.tiling, place.thread, half, shared);
  }
  if (body.tiling.lane(place.thread) == 0) {
    body.end(place, shared[place.thread]);
  }
}

template <typename Body>
__global__ void __launch_bounds__(kThreads, kBlocksOnAMultiprocessor) reduce_blocks(const __grid_constant__ Body body) {
  __shared__ typename Body::State shared[kThreads];
  reduce_block(body, shared);
}

/// Counts a block that is done, and returns whether it is the last of `blocks`, after which the counter is 0 again.
/// What threads of all these blocks wrote before is what every thread of the last one reads after.
__device__ inline bool is_last(std::uint32_t* counter, int blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto before_last = static_cast<std::uint32_t>(blocks - 1);
    last = atomicInc(counter, before_last) == before_last;
  }
  __syncthreads();
  __threadfence();
  return last;
}

/// Does what reduce_blocks does, then merges as merging.h says.
template <typename Body, typename Merging>
__global__ void __launch_bounds__(kThreads, kBlocksOnAMultiprocessor)
    reduce_and_merge_blocks(const __grid_constant__ Body body, const __grid_constant__ Merging merging,
                            std::uint32_t* counters) {
  __shared__ typename Body::State shared[kThreads];
  reduce_block(body, shared);
  const MergingBlock block{body.tiling, this_thread(), Body::kChannels};
  std::uint32_t* const of_groups = counters + block.first_counter();
  if (!is_last(of_groups + 1 + block.group(), block.members())) {
    return;
  }
  if (block.has_channel()) {
    merge_group(merging, block.group(), block.channel());
  }
  if (is_last(of_groups, block.groups()) && block.has_channel()) {
    merge_groups(merging, block.channel());
  }
}

/// Launches `kernel` and returns the status of this launch alone, not of earlier errors on this thread.
template <typename... Parameters>
Status launch(void (*kernel)(Parameters...), Grid grid, Stream stream, const Parameters&... parameters) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, parameters...);
}

/// The blocks of a tiling.
inline Grid grid_of(const Tiling& tiling) {
  return {static_cast<unsigned>(tiling.channel_blocks), static_cast<unsigned>(tiling.row_blocks)};
}

template <typename Body>
Status launch_for_each(const Body& body, Grid grid, Stream stream) {
  return launch(&for_each_thread<Body>, grid, stream, body);
}

template <typename Body>
Status launch_reduction(const Body& body, Stream stream) {
  return launch(&reduce_blocks<Body>, grid_of(body.tiling), stream, body);
}

template <typename Body, typename Merging>
Status launch_merging_reduction(const Body& body, const Merging& merging, std::uint32_t* counters, Stream stream) {
  return launch(&reduce_and_merge_blocks<Body, Merging>, grid_of(body.tiling), stream, body, merging, counters);
}

}  // namespace rollcall::device::kernels
