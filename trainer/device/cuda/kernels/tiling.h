#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/device/cuda/kernels/arithmetic.h"

namespace rollcall::device::kernels {

// Divides work among threads. Sizes depend only on the shape and not on the GPU: sums are added up in the same order,
// and are bit-identical, on every GPU and in every run.

/// Threads of a block, a power of two.
inline constexpr int kThreads = 512;
/// The number of blocks that an H100 runs at once, two on each of its 132 multiprocessors. More blocks would leave more
/// parts to merge.
inline constexpr int kBlocks = 264;

/// Number of elements of T in the 16 bytes that a thread loads and stores at once.
template <typename T>
inline constexpr unsigned kVector = 16 / sizeof(T);

template <typename T, unsigned K>
struct alignas(sizeof(T) * K) Vector {
  T values[K];
};

/// Loads the K elements at `from`, which is aligned to their size.
template <unsigned K, typename T>
ROLLCALL_HOST_DEVICE inline Vector<T, K> load(const T* from) {
  return *reinterpret_cast<const Vector<T, K>*>(from);
}

template <unsigned K, typename T>
ROLLCALL_HOST_DEVICE inline void store(T* to, const Vector<T, K>& vector) {
  *reinterpret_cast<Vector<T, K>*>(to) = vector;
}

/// The indices of a thread: its block's two and its own.
struct ThreadIndex {
  int block_x;
  int block_y;
  int thread;
};

/// A thread's elements of [rows][channels]: K channels beginning at `channel`, of every `step`-th row.
struct Tile {
  std::int64_t channel;
  std::int64_t row;
  std::int64_t end;
  unsigned step;
  bool inside;  ///< false for a thread without channels
};

/// Divides [rows][channels] among blocks of kThreads threads. A block is `columns` x `lanes` threads, both powers of
/// two: adjacent threads load adjacent channels, and the lanes take the rows in turn.
struct Tiling {
  std::int64_t rows;
  std::int64_t channels;
  std::int64_t block_rows;  ///< rows of a block
  int columns;
  int lanes;
  int channel_blocks;
  int row_blocks;  ///< at least 1, also without rows

  /// The first `columns` threads are the first lane.
  ROLLCALL_HOST_DEVICE int lane(int thread) const { return thread / columns; }

  template <unsigned K>
  ROLLCALL_HOST_DEVICE Tile tile(const ThreadIndex& place) const {
    const std::int64_t channel = (static_cast<std::int64_t>(place.block_x) * columns + place.thread % columns) * K;
    const std::int64_t begin = place.block_y * block_rows;
    const std::int64_t end = begin + block_rows < rows ? begin + block_rows : rows;
    return {channel, begin + lane(place.thread), end, static_cast<unsigned>(lanes), channel < channels};
  }
};

/// Returns a tiling with `k` channels a thread, of which `channels` is a multiple, at most `most_columns` threads in a
/// row, and at most `most_row_blocks` blocks of rows.
inline Tiling tiling_of(std::int64_t rows, std::int64_t channels, unsigned k, int most_columns = 32,
                        int most_row_blocks = kBlocks) {
  const std::int64_t vectors = channels / k;
  Tiling tiling{.rows = rows,
                .channels = channels,
                .block_rows = 0,
                .columns = 1,
                .lanes = 0,
                .channel_blocks = 0,
                .row_blocks = 0};
  while (tiling.columns < vectors && tiling.columns < most_columns) {
    tiling.columns *= 2;
  }
  const auto parts = [](std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; };
  tiling.lanes = kThreads / tiling.columns;
  tiling.channel_blocks = static_cast<int>(parts(vectors, tiling.columns));
  const std::int64_t wanted = std::clamp(kBlocks / tiling.channel_blocks, 1, most_row_blocks);
  tiling.block_rows = parts(parts(std::max<std::int64_t>(rows, 1), wanted), tiling.lanes) * tiling.lanes;
  tiling.row_blocks = static_cast<int>(std::max<std::int64_t>(parts(rows, tiling.block_rows), 1));
  return tiling;
}

/// Returns the tiling that merges `parts`: few channels a block, so that many lanes share the parts.
inline Tiling merging(std::int64_t parts, std::int64_t channels) { return tiling_of(parts, channels, 1, 8, 1); }

/// One step of a block's reduction in shared memory. Every thread begins with the result of its rows. For `half` from
/// lanes / 2 down to 1, with a barrier before each, the first `half` lanes merge the results of the next `half` lanes.
/// The first lane has the block's result.
template <typename State>
ROLLCALL_HOST_DEVICE inline void merge_lanes(const Tiling& tiling, int thread, int half, State* shared) {
  if (tiling.lane(thread) < half) {
    merge(shared[thread], shared[thread + half * tiling.columns]);
  }
}

/// Calls use(row, load(row)) for a tile's rows. Loads of kAtOnce rows are issued before the first one is used: stores
/// between them would delay them, since the compiler cannot know that they do not alias. kAtOnce must fit the registers
/// of a thread that shares its multiprocessor with 1,023 others: 32 bytes pending for each of them saturate the memory
/// of an H100.
template <unsigned kAtOnce, typename Load, typename Use>
ROLLCALL_HOST_DEVICE inline void over_rows(const Tile& tile, const Load& load_row, const Use& use) {
  using Loaded = decltype(load_row(tile.row));
  std::int64_t row = tile.row;
  for (; row + (kAtOnce - 1) * tile.step < tile.end; row += kAtOnce * tile.step) {
    Loaded loaded[kAtOnce];
    for (unsigned i = 0; i < kAtOnce; ++i) {
      loaded[i] = load_row(row + i * tile.step);
    }
    for (unsigned i = 0; i < kAtOnce; ++i) {
      use(row + i * tile.step, loaded[i]);
    }
  }
  for (; row < tile.end; row += tile.step) {
    use(row, load_row(row));
  }
}

}  // namespace rollcall::device::kernels
