#pragma once

#include "trainer/device/cuda/kernels/batch_norm_bodies.h"

namespace rollcall::device::kernels {

// Batch normalisation, ReLU and max pooling in one pass: windows of 3 x 3, stride 2, padding 1.

/// Images of x, whose rows number less than 2^31, and of the pooled y.
struct PooledImage {
  int height, width;
  int pooled_height, pooled_width;

  explicit PooledImage(const Image& of)
      : height(static_cast<int>(of.height)),
        width(static_cast<int>(of.width)),
        pooled_height((height + 1) / 2),
        pooled_width((width + 1) / 2) {}
};

/// A row of [N][height][width][channels].
struct Pixel {
  int image, y, x;
};

ROLLCALL_HOST_DEVICE inline Pixel pixel_of(int row, int height, int width) {
  const int line = row / width;
  const int image = line / height;
  return {image, line - image * height, row - line * width};
}

template <typename T, unsigned K>
struct PooledForward {
  Tiling tiling;  ///< of y
  PooledImage image;
  const T* x;
  T* y;
  std::uint8_t* winners;  ///< null: none are written
  Affine affine;
  bool backwards;

  ROLLCALL_HOST_DEVICE void run(const ThreadIndex& place) const {
    const Tile tile = tiling.tile<K>(place);
    if (!tile.inside) {
      return;
    }
    ChannelScale scales[K];
    scales_of(affine, tile.channel, scales);
    over_rows<1>(
        backwards ? reversed(tile) : tile, [](int row) { return row; },
        [&](int row, int) {
          Vector<T, K> largest;
          Vector<std::uint8_t, K> winner;
          pool(pixel_of(row, image.pooled_height, image.pooled_width), tile.channel, scales, largest, winner);
          store(y + tiling.index(row, tile.channel), largest);
          if (winners != nullptr) {
            store(winners + tiling.index(row, tile.channel), winner);
          }
        });
  }

  /// Takes the first of equal values, and of those that are not numbers the last, as LibTorch does.
  ROLLCALL_HOST_DEVICE void pool(const Pixel& of, std::int64_t channel, const ChannelScale (&scales)[K],
                                 Vector<T, K>& largest, Vector<std::uint8_t, K>& winner) const {
    bool is_first = true;
    for (int i = 0; i < 9; ++i) {
      const int from_y = 2 * of.y - 1 + i / 3;
      const int from_x = 2 * of.x - 1 + i % 3;
      if (from_y < 0 || from_y >= image.height || from_x < 0 || from_x >= image.width) {
        continue;
      }
      const int row = (of.image * image.height + from_y) * image.width + from_x;
      const Vector<T, K> values = load<K>(x + tiling.index(row, channel));
      for (unsigned k = 0; k < K; ++k) {
        const T value = output_of<T>(static_cast<float>(values.values[k]), scales[k]);
        const auto number = static_cast<float>(value);
        if (is_first || number > static_cast<float>(largest.values[k]) || number != number) {
          largest.values[k] = value;
          winner.values[k] = static_cast<std::uint8_t>(i);
        }
      }
      is_first = false;
    }
  }
};

/// The gradients of the ReLU's output, from those of y.
template <typename T, unsigned K>
struct Unpooled {
  UpToTwoGradients<T, K> pooled;
  const std::uint8_t* winners;
  PooledImage image;

  ROLLCALL_HOST_DEVICE Vector<T, K> at(int row, std::int64_t channel, std::int64_t channels) const {
    const Pixel of = pixel_of(row, image.height, image.width);
    Vector<T, K> sum{};
    // The windows of which it is a value: at most 2 x 2, in rows.
    ROLLCALL_AS_A_LOOP
    for (int y = of.y / 2; y <= (of.y + 1) / 2 && y < image.pooled_height; ++y) {
      ROLLCALL_AS_A_LOOP
      for (int x = of.x / 2; x <= (of.x + 1) / 2 && x < image.pooled_width; ++x) {
        const int window = (of.image * image.pooled_height + y) * image.pooled_width + x;
        const Vector<std::uint8_t, K> winner = load<K>(winners + window * channels + channel);
        const Vector<T, K> gradient = pooled.at(window, channel, channels);
        const int mine = (of.y - 2 * y + 1) * 3 + of.x - 2 * x + 1;
        for (unsigned k = 0; k < K; ++k) {
          sum.values[k] = winner.values[k] == mine ? added(sum.values[k], gradient.values[k]) : sum.values[k];
        }
      }
    }
    return sum;
  }
};

}  // namespace rollcall::device::kernels
