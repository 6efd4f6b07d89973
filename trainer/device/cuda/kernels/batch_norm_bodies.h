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

/// Returns y as the forward pass rounded it, of a batch norm with a ReLU alone.
template <typename T>
ROLLCALL_HOST_DEVICE inline T output_of(float x, const ChannelScale& scale) {
  return static_cast<T>(relu(normalised(x, scale)));
}

/// Returns the gradient before the epilogue. The bit `k` of `passes` is whether y is above 0, with AddRelu.
template <Epilogue kEpilogue, typename T>
ROLLCALL_HOST_DEVICE inline float below_epilogue(float gradient, float x, unsigned passes, unsigned k,
                                                 const ChannelScale& scale) {
  if constexpr (kEpilogue == Epilogue::AddRelu) {
    return (passes >> k & 1) != 0 ? gradient : 0;
  } else if constexpr (kEpilogue == Epilogue::None) {
    return gradient;
  } else {
    return is_passed(output_of<T>(x, scale)) ? gradient : 0;
  }
}

/// Returns a bit for each element, whether it passes gradients.
template <typename T, unsigned K>
ROLLCALL_HOST_DEVICE inline unsigned passed_bits(const Vector<T, K>& y) {
  unsigned bits = 0;
  for (unsigned k = 0; k < K; ++k) {
    bits |= is_passed(y.values[k]) ? 1U << k : 0;
  }
  return bits;
}

// Where a backward pass loads gradients of a row, from `channel` on.

template <typename T, unsigned K>
struct OneGradient {
  const T* from;

  ROLLCALL_HOST_DEVICE Vector<T, K> at(int row, std::int64_t channel, std::int64_t channels) const {
    return load<K>(from + (row * channels + channel));
  }
};

/// Loads the sum of two, or one if the second is null.
template <typename T, unsigned K>
struct UpToTwoGradients {
  const T* first;
  const T* second;

  ROLLCALL_HOST_DEVICE Vector<T, K> at(int row, std::int64_t channel, std::int64_t channels) const {
    const std::int64_t index = row * channels + channel;
    Vector<T, K> sum = load<K>(first + index);
    if (second != nullptr) {
      const Vector<T, K> more = load<K>(second + index);
      for (unsigned k = 0; k < K; ++k) {
        sum.values[k] = added(sum.values[k], more.values[k]);
      }
    }
    return sum;
  }
};

template <typename T, unsigned K, Epilogue kEpilogue>
struct Forward {
  Tiling tiling;
  const T* x;
  const T* added;
  T* y;
  std::uint8_t* mask;  ///< one byte a vector; null: none is written
  Affine affine;
  bool backwards;

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
    over_rows<kEpilogue == Epilogue::AddRelu ? 1 : 4>(
        backwards ? reversed(tile) : tile,
        [&](int row) {
          const std::int64_t at = tiling.index(row, tile.channel);
          const Vector<T, K> of_x = load<K>(x + at);
          return Loaded{of_x, kEpilogue == Epilogue::AddRelu ? load<K>(added + at) : of_x};
        },
        [&](int row, const Loaded& loaded) {
          Vector<T, K> result;
          for (unsigned k = 0; k < K; ++k) {
            float value = normalised(static_cast<float>(loaded.x.values[k]), scales[k]);
            value += kEpilogue == Epilogue::AddRelu ? static_cast<float>(loaded.added.values[k]) : 0;
            result.values[k] = static_cast<T>(kEpilogue == Epilogue::None ? value : relu(value));
          }
          const std::int64_t at = tiling.index(row, tile.channel);
          store(y + at, result);
          if (kEpilogue == Epilogue::AddRelu && mask != nullptr) {
            mask[at / K] = static_cast<std::uint8_t>(passed_bits(result));
          }
        });
  }
};

/// Computes the sums of each block of rows; with AddRelu also writes the gradients before the epilogue.
template <typename T, unsigned K, Epilogue kEpilogue, typename Gradients>
struct PartialGradientSums {
  using State = Sums<float, K>;
  static constexpr unsigned kChannels = K;  ///< of a thread

  Tiling tiling;
  Gradients gradients;
  const T* x;
  const T* y;                ///< read with AddRelu if `mask` is null
  const std::uint8_t* mask;  ///< one byte a vector
  T* below;
  Affine affine;
  double* parts;  ///< [row_blocks][2 channels]

  struct Loaded {
    Vector<T, K> gradient, x;
    unsigned passes;
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
        [&](int row) {
          const std::int64_t at = tiling.index(row, tile.channel);
          const Vector<T, K> of_x = load<K>(x + at);
          return Loaded{gradients.at(row, tile.channel, tiling.channels), of_x, passes(at)};
        },
        [&](int row, const Loaded& loaded) {
          Vector<T, K> let_through;
          for (unsigned k = 0; k < K; ++k) {
            const float input = static_cast<float>(loaded.x.values[k]);
            const float g = below_epilogue<kEpilogue, T>(static_cast<float>(loaded.gradient.values[k]), input,
                                                         loaded.passes, k, scales[k]);
            sums.first[k] += g;
            sums.second[k] = std::fma(g, input - scales[k].mean, sums.second[k]);
            let_through.values[k] = static_cast<T>(g);
          }
          if constexpr (kEpilogue == Epilogue::AddRelu) {
            store(below + tiling.index(row, tile.channel), let_through);
          }
        });
  }

  ROLLCALL_HOST_DEVICE unsigned passes(std::int64_t at) const {
    if constexpr (kEpilogue == Epilogue::AddRelu) {
      return mask != nullptr ? mask[at / K] : passed_bits(load<K>(y + at));
    } else {
      return 0;
    }
  }

  ROLLCALL_HOST_DEVICE void end(const ThreadIndex& place, const State& sums) const {
    const Tile tile = tiling.tile<K>(place);
    if (tile.inside) {
      double* const to = parts + 2 * tiling.channels * place.block_y + tile.channel;
      for (unsigned k = 0; k < K; ++k) {
        to[k] = sums.first[k];
        to[tiling.channels + k] = sums.second[k];
      }
    }
  }
};

struct MergedGradientSums {
  using State = Sums<double, 1>;

  Tiling tiling;        ///< merging()
  const double* parts;  ///< [parts][2 channels]
  double* groups;       ///< [kGroups][2 channels], behind them
  const float* inverse_stddev;
  double* sums;
  float* weight_gradient;
  float* bias_gradient;

  ROLLCALL_HOST_DEVICE State begin(const ThreadIndex& place) const { return merge_parts(*this, place); }

  ROLLCALL_HOST_DEVICE void end(const ThreadIndex& place, const State& merged) const {
    const Tile tile = tiling.tile<1>(place);
    if (tile.inside) {
      finish(tile.channel, merged);
    }
  }

  ROLLCALL_HOST_DEVICE State part(int i, std::int64_t c) const {
    const double* const from = parts + 2 * tiling.channels * i + c;
    return {{from[0]}, {from[tiling.channels]}};
  }

  ROLLCALL_HOST_DEVICE void keep(int group, std::int64_t c, const State& merged) const {
    double* const to = groups + 2 * tiling.channels * group + c;
    to[0] = merged.first[0];
    to[tiling.channels] = merged.second[0];
  }

  ROLLCALL_HOST_DEVICE void finish(std::int64_t c, const State& merged) const {
    sums[c] = merged.first[0];
    sums[tiling.channels + c] = merged.second[0];
    bias_gradient[c] = static_cast<float>(merged.first[0]);
    weight_gradient[c] = static_cast<float>(merged.second[0] * inverse_stddev[c]);
  }
};

/// Computes the gradient of x. kEpilogue is also None if `gradients` are already the one before the epilogue.
template <typename T, unsigned K, Epilogue kEpilogue, typename Gradients>
struct InputGradient {
  Tiling tiling;
  Gradients gradients;
  const T* x;
  T* x_gradient;
  Affine affine;
  const double* sums;
  const double* count;
  bool backwards;

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
        backwards ? reversed(tile) : tile,
        [&](int row) {
          const Vector<T, K> of_x = load<K>(x + tiling.index(row, tile.channel));
          return Loaded{gradients.at(row, tile.channel, tiling.channels), of_x};
        },
        [&](int row, const Loaded& loaded) {
          Vector<T, K> result;
          for (unsigned k = 0; k < K; ++k) {
            const float input = static_cast<float>(loaded.x.values[k]);
            const float g = below_epilogue<kEpilogue, T>(static_cast<float>(loaded.gradient.values[k]), input,
                                                         /*passes=*/0, k, scales[k]);
            result.values[k] = static_cast<T>(input_gradient(g, input, scales[k], of_sums[k]));
          }
          store(x_gradient + tiling.index(row, tile.channel), result);
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
