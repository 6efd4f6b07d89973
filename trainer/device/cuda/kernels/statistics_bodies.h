#pragma once

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/tiling.h"

namespace rollcall::device::kernels {

// Bodies of reductions to moments: of blocks of rows, and of several parts. begin() computes a thread's result, and
// end() writes the block's result on the first lane; merge_lanes() runs in between.

template <typename T, unsigned K>
ROLLCALL_HOST_DEVICE inline void widen(const Vector<T, K>& from, float (&to)[K]) {
  for (unsigned k = 0; k < K; ++k) {
    to[k] = static_cast<float>(from.values[k]);
  }
}

/// Returns how many numbers describe a part's moments: [2 channels + 1], as BatchNormStatistics::moments.
ROLLCALL_HOST_DEVICE inline std::int64_t moment_numbers(std::int64_t channels) { return 2 * channels + 1; }

template <unsigned K, typename Real>
ROLLCALL_HOST_DEVICE inline void write_moments(double* to, const Tile& tile, std::int64_t channels,
                                               const Moments<Real, K>& moments) {
  for (unsigned k = 0; k < K; ++k) {
    to[tile.channel + k] = moments.mean[k];
    to[channels + tile.channel + k] = moments.m2[k];
  }
  if (tile.channel == 0) {
    to[2 * channels] = moments.count;
  }
}

/// Computes the moments of each block of rows.
template <typename T, unsigned K>
struct PartialStatistics {
  using State = Moments<float, K>;

  Tiling tiling;
  const T* x;
  double* parts;  ///< [row_blocks][2 channels + 1]

  ROLLCALL_HOST_DEVICE State begin(const ThreadIndex& place) const {
    State moments{};
    const Tile tile = tiling.tile<K>(place);
    if (tile.inside) {
      over_rows<2>(
          tile, [&](std::int64_t row) { return load<K>(x + row * tiling.channels + tile.channel); },
          [&](std::int64_t, const Vector<T, K>& loaded) {
            float values[K];
            widen(loaded, values);
            add_values(moments, values);
          });
    }
    return moments;
  }

  ROLLCALL_HOST_DEVICE void end(const ThreadIndex& place, const State& moments) const {
    const Tile tile = tiling.tile<K>(place);
    if (tile.inside) {
      write_moments(parts + place.block_y * moment_numbers(tiling.channels), tile, tiling.channels, moments);
    }
  }
};

/// Merges the moments of a batch's blocks, or of ranks.
struct MergedStatistics {
  using State = Moments<double, 1>;

  Tiling tiling;        ///< tiling of [parts][channels], with one block of rows
  const double* parts;  ///< [parts][2 channels + 1]
  double* moments;      ///< receives the moments; if null, `statistics` are written instead
  Statistics statistics;

  ROLLCALL_HOST_DEVICE State begin(const ThreadIndex& place) const {
    State merged{};
    const Tile tile = tiling.tile<1>(place);
    if (tile.inside) {
      over_rows<2>(
          tile,
          [&](std::int64_t part) {
            const double* const from = parts + part * moment_numbers(tiling.channels);
            return State{from[2 * tiling.channels], {from[tile.channel]}, {from[tiling.channels + tile.channel]}};
          },
          [&](std::int64_t, const State& part) { merge(merged, part); });
    }
    return merged;
  }

  ROLLCALL_HOST_DEVICE void end(const ThreadIndex& place, const State& merged) const {
    const Tile tile = tiling.tile<1>(place);
    if (!tile.inside) {
      return;
    }
    if (moments != nullptr) {
      write_moments(moments, tile, tiling.channels, merged);
    } else {
      finish(tile.channel, merged);
    }
  }

  ROLLCALL_HOST_DEVICE void finish(std::int64_t c, const State& merged) const {
    const Statistics& to = statistics;
    to.mean[c] = static_cast<float>(merged.mean[0]);
    to.inverse_stddev[c] = static_cast<float>(inverse_stddev_of(merged.m2[0], merged.count, to.eps));
    if (c == 0) {
      *to.count = merged.count;
    }
    if (to.running_mean != nullptr && merged.count > 0) {
      const double variance = unbiased_variance(merged.m2[0], merged.count);
      to.running_mean[c] = updated(to.running_mean[c], merged.mean[0], to.momentum);
      to.running_variance[c] = updated(to.running_variance[c], variance, to.momentum);
    }
  }
};

}  // namespace rollcall::device::kernels
