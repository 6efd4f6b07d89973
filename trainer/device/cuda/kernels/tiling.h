#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/device/cuda/kernels/arithmetic.h"

namespace rollcall::device::kernels {

// How kernels share work. Sizes depend on the shape alone and not on the GPU: sums are added up in the same order, and
// have the same bits, on every GPU and in every run.

/// Threads of a block, a power of two.
inline constexpr int kThreads = 512;
/// As many blocks as an H100 holds at once, two on each of its 132 multiprocessors: more would leave more parts to
/// merge.
inline constexpr int kBlocks = 264;

/// Elements of T in the 16 bytes that a thread loads and stores at once.
template <typename T>
inline constexpr unsigned kVector = 16 / sizeof(T);

template <typename T, unsigned K>
struct alignas(sizeof(T) * K) Vector {
  T values[K];
};

/// The K elements at `from`, which lies on a multiple of their size.
template <unsigned K, typename T>
ROLLCALL_HOST_DEVICE inline Vector<T, K> load(const T* from) {
  return *reinterpret_cast<const Vector<T, K>*>(from);
}

template <unsigned K, typename T>
ROLLCALL_HOST_DEVICE inline void store(T* to, const Vector<T, K>& vector) {
  *reinterpret_cast<Vector<T, K>*>(to) = vector;
}

/// A thread: its block's two indices and its own.
struct Place {
  int block_x;
  int block_y;
  int thread;
};

/// Where a thread works in [rows][channels]: K channels from the first one on, every `step`-th row.
struct Tile {
  std::int64_t channel;
  std::int64_t row;
  std::int64_t end;
  unsigned step;
  bool inside;  ///< some threads have no channels
};

/// How blocks of kThreads threads cover [rows][channels]. A block is `columns` x `lanes` threads, both powers of two:
/// threads beside each other load channels beside each other, and the lanes take turns with the rows.
struct Tiling {
  std::int64_t rows;
  std::int64_t channels;
  std::int64_t block_rows;  ///< rows of a block
  int columns;
  int lanes;
  int channel_blocks;
  int row_blocks;  ///< 1 where there are no rows, too

  /// The first `columns` threads are the first lane.
  ROLLCALL_HOST_DEVICE int lane(int thread) const { return thread / columns; }

  template <unsigned K>
  ROLLCALL_HOST_DEVICE Tile tile(const Place& place) const {
    const std::int64_t channel = (static_cast<std::int64_t>(place.block_x) * columns + place.thread % columns) * K;
    const std::int64_t begin = place.block_y * block_rows;
    const std::int64_t end = begin + block_rows < rows ? begin + block_rows : rows;
    return {channel, begin + lane(place.thread), end, static_cast<unsigned>(lanes), channel < channels};
  }
};

/// K channels a thread, of which the number of channels is a multiple; at most `most_columns` threads beside each
/// other, and at most `most_row_blocks` blocks of rows.
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

/// The tiling that merges `parts`: few channels a block, so that many lanes share the parts.
inline Tiling merging(std::int64_t parts, std::int64_t channels) { return tiling_of(parts, channels, 1, 8, 1); }

/// A reduction over a block: every thread begins with what its rows give, in shared memory, and then, for `half` from
/// lanes / 2 down to 1 with a barrier before each, the first `half` lanes take in what the next `half` hold. The first
/// lane ends it.
template <typename State>
ROLLCALL_HOST_DEVICE inline void merge_lanes(const Tiling& tiling, int thread, int half, State* shared) {
  if (tiling.lane(thread) < half) {
    merge(shared[thread], shared[thread + half * tiling.columns]);
  }
}

/// Calls use(row, load(row)) for a tile's rows. Loads of kAtOnce rows are under way before the first one is used:
/// stores between them would hold them up, since the compiler cannot know that they go elsewhere. As many as fit the
/// registers of a thread that shares its multiprocessor with 1,023 others: with 32 bytes under way for each of them an
/// H100's memory is busy.
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
