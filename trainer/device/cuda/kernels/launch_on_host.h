#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <vector>

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/tiling.h"

namespace rollcall::device::kernels {

// Runs the bodies of the kernels on a CPU: every thread of every block, one after the other, with the kernels' own
// blocks, lanes and order of merging. All work is done on return.

using Half = c10::Half;
using BFloat16 = c10::BFloat16;

/// The number of blocks, as CUDA's dim3.
struct Grid {
  explicit Grid(unsigned of_x, unsigned of_y = 1) : x(of_x), y(of_y) {}
  unsigned x, y;
};

/// The order of a block's threads. It must not matter between two barriers.
enum class Order { Forwards, Backwards };

/// Calls use(thread) for the threads of a block.
template <typename Use>
void over_threads(Order order, const Use& use) {
  for (int i = 0; i < kThreads; ++i) {
    use(order == Order::Forwards ? i : kThreads - 1 - i);
  }
}

/// Does what for_each_thread of launch_on_gpu.h does.
template <typename Body>
void run_threads(const Body& body, int blocks_x, int blocks_y = 1, Order order = Order::Forwards) {
  for (int y = 0; y < blocks_y; ++y) {
    for (int x = 0; x < blocks_x; ++x) {
      over_threads(order, [&](int thread) { body.run(ThreadIndex{x, y, thread}); });
    }
  }
}

/// Does what reduce_blocks of launch_on_gpu.h does.
template <typename Body>
void run_reduction(const Body& body, Order order = Order::Forwards) {
  const Tiling& tiling = body.tiling;
  std::vector<typename Body::State> shared(kThreads);
  for (int y = 0; y < tiling.row_blocks; ++y) {
    for (int x = 0; x < tiling.channel_blocks; ++x) {
      over_threads(order, [&](int thread) { shared[static_cast<std::size_t>(thread)] = body.begin({x, y, thread}); });
      for (int half = tiling.lanes / 2; half > 0; half /= 2) {
        over_threads(order, [&](int thread) { merge_lanes(tiling, thread, half, shared.data()); });
      }
      for (int thread = 0; thread < tiling.columns; ++thread) {
        body.end({x, y, thread}, shared[static_cast<std::size_t>(thread)]);
      }
    }
  }
}

template <typename Body>
Status launch_for_each(const Body& body, Grid grid, Stream /*stream*/) {
  run_threads(body, static_cast<int>(grid.x), static_cast<int>(grid.y));
  return kSuccess;
}

template <typename Body>
Status launch_reduction(const Body& body, Stream /*stream*/) {
  run_reduction(body);
  return kSuccess;
}

}  // namespace rollcall::device::kernels
