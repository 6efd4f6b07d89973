#pragma once

#include <algorithm>
#include <cstddef>
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

/// Rows are numbered by int, also those behind the last one.
inline constexpr std::int64_t kMostRows = (1LL << 31) - 8LL * kThreads;

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

/// A thread's elements of [rows][channels]: K channels beginning at `channel`, of every `step`-th row from `row` on.
struct Tile {
  std::int64_t channel;
  int row;
  int rows;  ///< how many
  int step;
  bool inside;  ///< false for a thread without channels
};

/// Returns the tile with its rows from the last one to the first.
ROLLCALL_HOST_DEVICE inline Tile reversed(const Tile& tile) {
  return {tile.channel, tile.row + (tile.rows - 1) * tile.step, tile.rows, -tile.step, tile.inside};
}

/// Divides [rows][channels] among blocks of kThreads threads. A block is `columns` x `lanes` threads, both powers of
/// two: adjacent threads load adjacent channels, and the lanes take the rows in turn.
struct Tiling {
  int rows;
  std::int64_t channels;
  int block_rows;  ///< rows of a block
  int columns;
  int lanes;
  int channel_blocks;
  int row_blocks;  ///< at least 1, also without rows

  /// The first `columns` threads are the first lane.
  ROLLCALL_HOST_DEVICE int lane(int thread) const { return thread / columns; }

  ROLLCALL_HOST_DEVICE std::int64_t index(int row, std::int64_t channel) const { return row * channels + channel; }

  template <unsigned K>
  ROLLCALL_HOST_DEVICE Tile tile(const ThreadIndex& place) const {
    const std::int64_t channel = (static_cast<std::int64_t>(place.block_x) * columns + place.thread % columns) * K;
    const int first = lane(place.thread);  // of the block's rows
    const int begin = place.block_y * block_rows;
    const int end = rows - begin < block_rows ? rows - begin : block_rows;
    const int count = first < end ? (end - first + lanes - 1) / lanes : 0;
    return {channel, begin + first, count, lanes, channel < channels};
  }
};

/// Returns a tiling of less than kMostRows rows with `k` channels a thread, of which `channels` is a multiple, at most
/// 32 threads in a row.
inline Tiling tiling_of(std::int64_t rows, std::int64_t channels, unsigned k) {
  const std::int64_t vectors = channels / k;
  Tiling tiling{.rows = static_cast<int>(rows),
                .channels = channels,
                .block_rows = 0,
                .columns = 1,
                .lanes = 0,
                .channel_blocks = 0,
                .row_blocks = 0};
  while (tiling.columns < vectors && tiling.columns < 32) {
    tiling.columns *= 2;
  }
  const auto parts = [](std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; };
  tiling.lanes = kThreads / tiling.columns;
  tiling.channel_blocks = static_cast<int>(parts(vectors, tiling.columns));
  const std::int64_t wanted = std::max(kBlocks / tiling.channel_blocks, 1);
  tiling.block_rows =
      static_cast<int>(parts(parts(std::max<std::int64_t>(rows, 1), wanted), tiling.lanes) * tiling.lanes);
  tiling.row_blocks = static_cast<int>(std::max<std::int64_t>(parts(rows, tiling.block_rows), 1));
  return tiling;
}

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
template <int kAtOnce, typename Load, typename Use>
ROLLCALL_HOST_DEVICE inline void over_rows(const Tile& tile, const Load& load_row, const Use& use) {
  using Loaded = decltype(load_row(tile.row));
  int row = tile.row;
  int left = tile.rows;
  ROLLCALL_AS_A_LOOP
  for (; left >= kAtOnce; left -= kAtOnce) {
    Loaded loaded[std::size_t{kAtOnce}];
    for (int i = 0; i < kAtOnce; ++i) {
      loaded[i] = load_row(row + i * tile.step);
    }
    for (int i = 0; i < kAtOnce; ++i) {
      use(row + i * tile.step, loaded[i]);
    }
    row += kAtOnce * tile.step;
  }
  ROLLCALL_AS_A_LOOP
  for (; left > 0; --left) {
    use(row, load_row(row));
    row += tile.step;
  }
}

}  // namespace rollcall::device::kernels
