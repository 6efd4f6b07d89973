#pragma once

#include "trainer/device/cuda/kernels/statistics_bodies.h"

namespace rollcall::device::kernels {

// Bodies of batch normalisation after its statistics. Each value is one expression of arithmetic.h.

ROLLCALL_HOST_DEVICE inline ChannelScale scale_of(const Affine& affine, std::int64_t c) {
  return {affine.mean[c], affine.inverse_stddev[c] * affine.weight[c], affine.bias[c]};
}

template <unsigned K>
ROLLCALL_HOST_DEVICE inline void scales_of(const Affine& affine, std::int64_t channel, ChannelScale (&scales)[K]) {
  for (unsigned k = 0; k < K; ++k) {
    scales[k] = scale_of(affine, channel + k);
  }
}

/// Returns the gradient before the epilogue, for an output as the forward pass rounded it.
template <Epilogue kEpilogue, typename T>
ROLLCALL_HOST_DEVICE inline float below_epilogue(float gradient, float x, T y, const ChannelScale& scale) {
  if constexpr (kEpilogue == Epilogue::AddRelu) {
    return below_relu(gradient, static_cast<float>(y));
  } else if constexpr (kEpilogue == Epilogue::Relu) {
    return below_relu(gradient, static_cast<float>(static_cast<T>(normalised(x, scale))));
  } else {
    return gradient;
  }
}

template <typename T, unsigned K, Epilogue kEpilogue>
struct Forward {
  Tiling tiling;
  const T* x;
  const T* added;
  T* y;
  Affine affine;

  struct Loaded {
    Vector<T, K> x, added;
  };

  ROLLCALL_HOST_DEVICE void run(const ThreadIndex& place) const {
    const Tile tile = tiling.tile<K>(place);
    if (!tile.inside) {
      return;
    }
    ChannelScale scales[K];
    scales_of(affine, tile.channel, scales);
    over_rows<kEpilogue == Epilogue::AddRelu ? 2 : 4>(
        tile,
        [&](std::int64_t row) {
          const std::int64_t at = row * tiling.channels + tile.channel;
          const Vector<T, K> of_x = load<K>(x + at);
          return Loaded{of_x, kEpilogue == Epilogue::AddRelu ? load<K>(added + at) : of_x};
        },
        [&](std::int64_t row, const Loaded& loaded) {
          Vector<T, K> result;
          for (unsigned k = 0; k < K; ++k) {
            float value = normalised(static_cast<float>(loaded.x.values[k]), scales[k]);
            value += kEpilogue == Epilogue::AddRelu ? static_cast<float>(loaded.added.values[k]) : 0;
            result.values[k] = static_cast<T>(kEpilogue == Epilogue::None ? value : relu(value));
          }
          store(y + row * tiling.channels + tile.channel, result);
        });
  }
};

/// Computes the sums of each block of rows; with AddRelu also writes the gradients before the epilogue.
template <typename T, unsigned K, Epilogue kEpilogue>
struct PartialGradientSums {
  using State = Sums<float, K>;

  Tiling tiling;
  const T* gradient;
  const T* x;
  const T* y;
  T* below;
  Affine affine;
  double* parts;  ///< [row_blocks][2 channels]

  struct Loaded {
    Vector<T, K> gradient, x, y;
  };

  ROLLCALL_HOST_DEVICE State begin(const ThreadIndex& place) const {
    State sums{};
    const Tile tile = tiling.tile<K>(place);
    if (tile.inside) {
      add_rows(tile, sums);
    }
    return sums;
  }

  ROLLCALL_HOST_DEVICE void add_rows(const Tile& tile, State& sums) const {
    ChannelScale scales[K];
    scales_of(affine, tile.channel, scales);
    over_rows<kEpilogue == Epilogue::None ? 2 : 1>(
        tile,
        [&](std::int64_t row) {
          const std::int64_t at = row * tiling.channels + tile.channel;
          const Vector<T, K> of_x = load<K>(x + at);
          return Loaded{load<K>(gradient + at), of_x, kEpilogue == Epilogue::AddRelu ? load<K>(y + at) : of_x};
        },
        [&](std::int64_t row, const Loaded& loaded) {
          Vector<T, K> let_through;
          for (unsigned k = 0; k < K; ++k) {
            const float input = static_cast<float>(loaded.x.values[k]);
            const float g = below_epilogue<kEpilogue>(static_cast<float>(loaded.gradient.values[k]), input,
                                                      loaded.y.values[k], scales[k]);
            sums.first[k] += g;
            sums.second[k] = std::fma(g, input - scales[k].mean, sums.second[k]);
            let_through.values[k] = static_cast<T>(g);
          }
          if constexpr (kEpilogue == Epilogue::AddRelu) {
            store(below + row * tiling.channels + tile.channel, let_through);
          }
        });
  }

  ROLLCALL_HOST_DEVICE void end(const ThreadIndex& place, const State& sums) const {
    const Tile tile = tiling.tile<K>(place);
    if (tile.inside) {
      double* const to = parts + place.block_y * 2 * tiling.channels + tile.channel;
      for (unsigned k = 0; k < K; ++k) {
        to[k] = sums.first[k];
        to[tiling.channels + k] = sums.second[k];
      }
    }
  }
};

struct MergedGradientSums {
  using State = Sums<double, 1>;

  Tiling tiling;        ///< tiling of [parts][channels], with one block of rows
  const double* parts;  ///< [parts][2 channels]
  const float* inverse_stddev;
  double* sums;
  float* weight_gradient;
  float* bias_gradient;

  ROLLCALL_HOST_DEVICE State begin(const ThreadIndex& place) const {
    State merged{};
    const Tile tile = tiling.tile<1>(place);
    if (tile.inside) {
      over_rows<4>(
          tile,
          [&](std::int64_t part) {
            const double* const from = parts + part * 2 * tiling.channels + tile.channel;
            return State{{from[0]}, {from[tiling.channels]}};
          },
          [&](std::int64_t, const State& part) { merge(merged, part); });
    }
    return merged;
  }

  ROLLCALL_HOST_DEVICE void end(const ThreadIndex& place, const State& merged) const {
    const Tile tile = tiling.tile<1>(place);
    if (tile.inside) {
      const std::int64_t c = tile.channel;
      sums[c] = merged.first[0];
      sums[tiling.channels + c] = merged.second[0];
      bias_gradient[c] = static_cast<float>(merged.first[0]);
      weight_gradient[c] = static_cast<float>(merged.second[0] * inverse_stddev[c]);
    }
  }
};

/// Computes the gradient of x. kEpilogue is also None if `gradient` is already the one before the epilogue.
template <typename T, unsigned K, Epilogue kEpilogue>
struct InputGradient {
  Tiling tiling;
  const T* gradient;
  const T* x;
  T* x_gradient;
  Affine affine;
  const double* sums;
  const double* count;

  struct Loaded {
    Vector<T, K> gradient, x;
  };

  ROLLCALL_HOST_DEVICE void run(const ThreadIndex& place) const {
    const Tile tile = tiling.tile<K>(place);
    if (!tile.inside) {
      return;
    }
    ChannelGradient of_sums[K];
    means_of_sums(tile, of_sums);  // first: float64 takes two registers
    ChannelScale scales[K];
    scales_of(affine, tile.channel, scales);
    over_rows<1>(
        tile,
        [&](std::int64_t row) {
          const std::int64_t at = row * tiling.channels + tile.channel;
          return Loaded{load<K>(gradient + at), load<K>(x + at)};
        },
        [&](std::int64_t row, const Loaded& loaded) {
          Vector<T, K> result;
          for (unsigned k = 0; k < K; ++k) {
            const float input = static_cast<float>(loaded.x.values[k]);
            const float g = below_epilogue<kEpilogue>(static_cast<float>(loaded.gradient.values[k]), input,
                                                      loaded.x.values[k], scales[k]);
            result.values[k] = static_cast<T>(input_gradient(g, input, scales[k], of_sums[k]));
          }
          store(x_gradient + row * tiling.channels + tile.channel, result);
        });
  }

  ROLLCALL_HOST_DEVICE void means_of_sums(const Tile& tile, ChannelGradient (&of_sums)[K]) const {
    const double part = 1 / *count;
    for (unsigned k = 0; k < K; ++k) {
      const std::int64_t c = tile.channel + k;
      const float deviation = affine.inverse_stddev[c];
      const auto mean_product = static_cast<float>(sums[tiling.channels + c] * part);
      of_sums[k] = {static_cast<float>(sums[c] * part), mean_product * (deviation * deviation)};
    }
  }
};

}  // namespace rollcall::device::kernels
