#include "trainer/data/image/resize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

// The two inner loops are compiled for AVX2 too and chosen at start-up. Sanitizers cannot run that choice. FMA stays
// off, so both versions round alike.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define ROLLCALL_VECTORISED __attribute__((optimize("O3"), target_clones("avx2", "default")))
#else
#define ROLLCALL_VECTORISED
#endif

namespace rollcall::data {
namespace {

/// The source positions that one output position is made of, and their weights.
struct Taps {
  int first = 0;
  int count = 0;
  std::size_t weights = 0;  ///< index of the first one in Axis::weights
};

/// The taps of the output positions [begin, begin + count) of one axis, resampled from `in` to `out` positions.
struct Axis {
  std::vector<Taps> taps;
  std::vector<float> weights;

  void plan(int in, int out, int begin, int count) {
    taps.clear();
    weights.clear();
    const double scale = static_cast<double>(in) / out;
    const double support = std::max(scale, 1.0);
    for (int position = begin; position < begin + count; ++position) {
      const double centre = (position + 0.5) * scale;
      const int first = std::max(0, static_cast<int>(centre - support + 0.5));
      const int last = std::min(in, static_cast<int>(centre + support + 0.5));
      taps.push_back({first, last - first, weights.size()});
      add_weights(first, last, centre, support);
    }
  }

 private:
  void add_weights(int first, int last, double centre, double support) {
    const std::size_t begin = weights.size();
    double sum = 0;
    for (int i = first; i < last; ++i) {
      const double weight = std::max(0.0, 1.0 - std::abs((i - centre + 0.5) / support));
      weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (std::size_t i = begin; i < weights.size(); ++i) {
      weights[i] = static_cast<float>(weights[i] / sum);
    }
  }
};

/// accumulator[i] += weight * source[i]
ROLLCALL_VECTORISED void add_row(float* __restrict accumulator, const std::uint8_t* __restrict source, float weight,
                                 std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    accumulator[i] += weight * static_cast<float>(source[i]);
  }
}

// One RGB pixel and whatever follows it: the fourth lane is carried along and overwritten by the next pixel.
using Pixel = float __attribute__((vector_size(16)));

Pixel load(const float* from) {
  Pixel pixel;
  std::memcpy(&pixel, from, sizeof pixel);
  return pixel;
}

Pixel padded(const std::array<float, 3>& values) { return Pixel{values[0], values[1], values[2], 0}; }

/// One output row from one vertically resampled row. `row` has a float to spare behind its last pixel; `out` has none.
void resample_row(const float* row, const Axis& axis, int offset, bool flip, const ChannelAffine& affine, float* out) {
  const Pixel scale = padded(affine.scale);
  const Pixel bias = padded(affine.bias);
  const std::size_t width = axis.taps.size();
  for (std::size_t x = 0; x < width; ++x) {
    const Taps taps = axis.taps[flip ? width - 1 - x : x];
    const float* weights = &axis.weights[taps.weights];
    const float* source = row + 4 * static_cast<std::size_t>(taps.first - offset);
    Pixel sum{};
    for (int k = 0; k < taps.count; ++k) {
      sum += weights[k] * load(source + 4 * k);
    }
    sum = sum * scale + bias;
    std::memcpy(out + 3 * x, &sum, (x + 1 < width ? 4 : 3) * sizeof(float));
  }
}

struct Scratch {
  Axis vertical;
  Axis horizontal;
  std::vector<float> row;
};

}  // namespace

Box needed(const Resize& request) {
  const auto along = [](int in, int out, int begin, int count, int& first, int& length) {
    Axis axis;
    axis.plan(in, out, begin, count);
    first = axis.taps.front().first;
    length = axis.taps.back().first + axis.taps.back().count - first;
  };
  Box box;
  along(request.source.width, request.width, request.window.left, request.window.width, box.left, box.width);
  along(request.source.height, request.height, request.window.top, request.window.height, box.top, box.height);
  box.left += request.source.left;
  box.top += request.source.top;
  return box;
}

void resize(const PixelView& view, const Resize& request, const ChannelAffine& affine, const OutputPixels& out) {
  const Box& source = request.source;
  const Box& window = request.window;
  assert(window.left >= 0 && window.right() <= request.width && window.top >= 0 && window.bottom() <= request.height);
  assert(out.width == window.width && out.height == window.height && out.type == PixelType::Float32);
  const Box part = needed(request);
  const std::size_t row_floats = static_cast<std::size_t>(part.width) * 4;
  const std::size_t out_floats = static_cast<std::size_t>(window.width) * 3;

  thread_local Scratch scratch;
  scratch.vertical.plan(source.height, request.height, window.top, window.height);
  scratch.horizontal.plan(source.width, request.width, window.left, window.width);
  float* to = static_cast<float*>(out.data);
  for (const Taps& taps : scratch.vertical.taps) {
    scratch.row.assign(row_floats, 0.0F);
    for (int k = 0; k < taps.count; ++k) {
      add_row(scratch.row.data(), view.at(part.left, source.top + taps.first + k),
              scratch.vertical.weights[taps.weights + static_cast<std::size_t>(k)], row_floats);
    }
    resample_row(scratch.row.data(), scratch.horizontal, part.left - source.left, request.flip, affine, to);
    to += out_floats;
  }
}

}  // namespace rollcall::data
