#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <vector>

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/merging.h"

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

/// The order of blocks, and of a block's threads. The latter must not matter between two barriers, the former never.
enum class Order { Forwards, Backwards };

/// Calls use(thread) for the threads of a block.
template <typename Use>
void over_threads(Order order, const Use& use) {
  for (int i = 0; i < kThreads; ++i) {
    use(order == Order::Forwards ? i : kThreads - 1 - i);
  }
}

/// Calls use(x, y) for the blocks of a tiling.
template <typename Use>
void over_blocks(const Tiling& tiling, Order order, const Use& use) {
  const int blocks = tiling.channel_blocks * tiling.row_blocks;
  for (int i = 0; i < blocks; ++i) {
    const int block = order == Order::Forwards ? i : blocks - 1 - i;
    use(block % tiling.channel_blocks, block / tiling.channel_blocks);
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

/// Does what reduce_block of launch_on_gpu.h does.
template <typename Body>
void run_block(const Body& body, int x, int y, Order order) {
  const Tiling& tiling = body.tiling;
  std::vector<typename Body::State> shared(kThreads);
  over_threads(order, [&](int thread) { shared[static_cast<std::size_t>(thread)] = body.begin({x, y, thread}); });
  for (int half = tiling.lanes / 2; half > 0; half /= 2) {
    over_threads(order, [&](int thread) { merge_lanes(tiling, thread, half, shared.data()); });
  }
  for (int thread = 0; thread < tiling.columns; ++thread) {
    body.end({x, y, thread}, shared[static_cast<std::size_t>(thread)]);
  }
}

/// Does what reduce_blocks of launch_on_gpu.h does.
template <typename Body>
void run_reduction(const Body& body, Order order = Order::Forwards) {
  over_blocks(body.tiling, order, [&](int x, int y) { run_block(body, x, y, order); });
}

/// Does what is_last of launch_on_gpu.h does.
inline bool is_last(std::uint32_t& counter, int blocks) {
  const bool last = counter == static_cast<std::uint32_t>(blocks - 1);
  counter = last ? 0 : counter + 1;
  return last;
}

/// Does what reduce_and_merge_blocks of launch_on_gpu.h does.
template <typename Body, typename Merging>
void run_merging_reduction(const Body& body, const Merging& merging, std::uint32_t* counters,
                           Order order = Order::Forwards) {
  over_blocks(body.tiling, order, [&](int x, int y) {
    run_block(body, x, y, order);
    const auto over_channels = [&](const auto& use) {
      over_threads(order, [&](int thread) {
        const MergingBlock of{body.tiling, {x, y, thread}, Body::kChannels};
        if (of.has_channel()) {
          use(of.channel());
        }
      });
    };
    const MergingBlock block{body.tiling, {x, y, 0}, Body::kChannels};
    std::uint32_t* const of_groups = counters + block.first_counter();
    if (is_last(of_groups[1 + block.group()], block.members())) {
      over_channels([&](std::int64_t c) { merge_group(merging, block.group(), c); });
      if (is_last(of_groups[0], block.groups())) {
        over_channels([&](std::int64_t c) { merge_groups(merging, c); });
      }
    }
  });
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

template <typename Body, typename Merging>
Status launch_merging_reduction(const Body& body, const Merging& merging, std::uint32_t* counters, Stream /*stream*/) {
  run_merging_reduction(body, merging, counters);
  return kSuccess;
}

}  // namespace rollcall::device::kernels
