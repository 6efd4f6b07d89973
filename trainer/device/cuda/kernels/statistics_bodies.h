#pragma once

#include "trainer/device/cuda/kernels/kernels.h"
#include "trainer/device/cuda/kernels/merging.h"

namespace rollcall::device::kernels {

// Bodies of reductions to moments: of blocks of rows, and of several parts. begin() computes a thread's result, and
// end() writes the block's result on the first lane; merge_lanes() runs in between.

template <typename T, unsigned K>
ROLLCALL_HOST_DEVICE inline void widen(const Vector<T, K>& from, float (&to)[K]) {
  for (unsigned k = 0; k < K; ++k) {
    to[k] = static_cast<float>(from.values[k]);
  }
}

/// The layout of a part's moments: means, then sums of squared distances from them, then the count of each `counted`
/// channels, which one block has made. With one count it is that of BatchNormStatistics::moments.
struct MomentLayout {
  std::int64_t channels;
  std::int64_t counted;

  ROLLCALL_HOST_DEVICE std::int64_t counts() const { return (channels + counted - 1) / counted; }
  ROLLCALL_HOST_DEVICE std::int64_t size() const { return 2 * channels + counts(); }

  template <typename Real, unsigned K>
  ROLLCALL_HOST_DEVICE void write(double* to, std::int64_t c, const Moments<Real, K>& moments) const {
    for (unsigned k = 0; k < K; ++k) {
      to[c + k] = moments.mean[k];
      to[channels + c + k] = moments.m2[k];
    }
    if (c % counted == 0) {
      to[2 * channels + c / counted] = moments.count;
    }
  }

  ROLLCALL_HOST_DEVICE Moments<double, 1> read(const double* from, std::int64_t c) const {
    return {from[2 * channels + c / counted], {from[c]}, {from[channels + c]}};
  }
};

/// Computes the moments of each block of rows.
template <typename T, unsigned K>
struct PartialStatistics {
  using State = Moments<float, K>;
  static constexpr unsigned kChannels = K;  ///< of a thread

  Tiling tiling;
  const T* x;
  double* parts;  ///< [row_blocks], each of layout()

  ROLLCALL_HOST_DEVICE State begin(const ThreadIndex& place) const {
    State moments{};
    const Tile tile = tiling.tile<K>(place);
    if (tile.inside) {
      over_rows<2>(
          tile, [&](int row) { return load<K>(x + tiling.index(row, tile.channel)); },
          [&](int, const Vector<T, K>& loaded) {
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
      layout().write(parts + place.block_y * layout().size(), tile.channel, moments);
    }
  }

  ROLLCALL_HOST_DEVICE MomentLayout layout() const { return {tiling.channels, tiling.columns * std::int64_t{K}}; }
};

/// Merges the moments of a batch's blocks, or of ranks.
struct MergedStatistics {
  using State = Moments<double, 1>;

  Tiling tiling;  ///< merging()
  MomentLayout layout;
  const double* parts;
  double* groups;   ///< the parts of groups; unused for ranks
  double* moments;  ///< receives the moments, with one count; if null, `statistics` are written instead
  Statistics statistics;

  ROLLCALL_HOST_DEVICE State begin(const ThreadIndex& place) const { return merge_parts(*this, place); }

  ROLLCALL_HOST_DEVICE void end(const ThreadIndex& place, const State& merged) const {
    const Tile tile = tiling.tile<1>(place);
    if (tile.inside) {
      finish(tile.channel, merged);
    }
  }

  ROLLCALL_HOST_DEVICE State part(int i, std::int64_t c) const { return layout.read(parts + i * layout.size(), c); }

  ROLLCALL_HOST_DEVICE void keep(int group, std::int64_t c, const State& merged) const {
    layout.write(groups + group * layout.size(), c, merged);
  }

  ROLLCALL_HOST_DEVICE void finish(std::int64_t c, const State& merged) const {
    if (moments != nullptr) {
      MomentLayout{tiling.channels, tiling.channels}.write(moments, c, merged);
      return;
    }
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
