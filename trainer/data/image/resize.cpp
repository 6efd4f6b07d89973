#include "trainer/data/image/resize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rollcall::data {
namespace {

/// One axis of a resize: maps `in` source positions to `out`, of which [begin, begin + count) are computed.
struct AxisRequest {
  int in = 0;
  int out = 0;
  int begin = 0;
  int count = 0;
  Interpolation interpolation = Interpolation::Bilinear;

  friend bool operator==(const AxisRequest&, const AxisRequest&) = default;

  [[nodiscard]] double scale() const { return static_cast<double>(in) / out; }
  /// At the same size every position is one pixel with either filter; the triangle needs no others.
  [[nodiscard]] bool is_cubic() const { return interpolation == Interpolation::Bicubic && in != out; }
  /// Half the width of the filter, in source pixels.
  [[nodiscard]] double support() const { return std::max(scale(), 1.0) * (is_cubic() ? 2 : 1); }
};

/// A range of source positions: [first, first + count).
struct AxisRange {
  int first = 0;
  int count = 0;
};

/// The weights of a filter along one axis. Its memory only grows. Repeating the last plan costs nothing.
struct ResizeAxis {
  int taps = 0;                     ///< no wanted position is made of more source positions
  std::vector<std::int32_t> first;  ///< for each wanted position: its first source position, from range_of().first
  std::vector<std::int32_t> count;  ///< ... how many of them up to the last weight that is not 0: 1 ... taps
  std::vector<float> weights;       ///< ... [taps] weights, zeros behind the last; their sum is 1

  void plan(const AxisRequest& request);

  [[nodiscard]] const float* weights_of(int position) const {
    return weights.data() + static_cast<std::ptrdiff_t>(position) * taps;
  }

 private:
  template <typename Filter>
  void plan_positions(const Filter& filter);

  AxisRequest planned_{};
};

/// Returns the range in which the filter around an output position is not 0, with Pillow's rounding.
AxisRange support_of(double centre, double support, int in) {
  // NOLINTBEGIN(bugprone-incorrect-roundings): below zero it rounds otherwise, and 0 is taken
  const int first = std::max(0, static_cast<int>(centre - support + 0.5));
  const int last = std::min(in, static_cast<int>(centre + support + 0.5));
  // NOLINTEND(bugprone-incorrect-roundings)
  return {first, last - first};
}

double centre_of(int position, double scale) { return (position + 0.5) * scale; }

/// Returns the source positions that influence the wanted output, without computing weights.
AxisRange range_of(const AxisRequest& request) {
  const double scale = request.scale();
  const AxisRange low = support_of(centre_of(request.begin, scale), request.support(), request.in);
  const AxisRange high = support_of(centre_of(request.begin + request.count - 1, scale), request.support(), request.in);
  return {low.first, high.first + high.count - low.first};
}

double triangle(double distance) { return std::max(0.0, 1 - std::abs(distance)); }

/// Keys' kernel with a = -0.5, as in Pillow, on a distance that is halved.
double cubic(double half_distance) {
  constexpr double a = -0.5;
  const double x = 2 * std::abs(half_distance);
  return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

void ResizeAxis::plan(const AxisRequest& request) {
  if (request == planned_) {
    return;
  }
  planned_ = request;
  // This many pixel centres are inside the filter; at the same size every position is one pixel.
  taps = request.in == request.out ? 1 : std::min(static_cast<int>(std::ceil(2 * request.support())), request.in);
  const auto positions = static_cast<std::size_t>(request.count);
  first.resize(positions);
  count.resize(positions);
  weights.assign(positions * static_cast<std::size_t>(taps), 0.0F);
  request.is_cubic() ? plan_positions(cubic) : plan_positions(triangle);
}

/// `filter`: its weight at a distance from the centre, as a part of the support.
template <typename Filter>
void ResizeAxis::plan_positions(const Filter& filter) {
  const double support = planned_.support();
  const double inverse_support = 1 / support;
  const int origin = range_of(planned_).first;
  for (int position = 0; position < planned_.count; ++position) {
    const double centre = centre_of(planned_.begin + position, planned_.scale());
    const int begin = support_of(centre, support, planned_.in).first;
    const double nearest = begin - centre + 0.5;
    float* to = weights.data() + static_cast<std::ptrdiff_t>(position) * taps;
    double sum = 0;
    int used = 0;  // number of taps up to the last one that is not 0
    // Every position but the last ones takes the same number of iterations: taps outside the filter get 0 without a
    // branch.
    const int turns = std::min(taps, planned_.in - begin);
    for (int k = 0; k < turns; ++k) {
      const double weight = filter((nearest + k) * inverse_support);
      to[k] = static_cast<float>(weight);
      sum += weight;
      used = weight != 0 ? k + 1 : used;
    }
    const auto inverse_sum = static_cast<float>(1 / sum);
    for (int k = 0; k < turns; ++k) {
      to[k] *= inverse_sum;
    }
    first[static_cast<std::size_t>(position)] = begin - origin;
    count[static_cast<std::size_t>(position)] = used;
  }
}

AxisRequest horizontal_axis(const Resize& request) {
  return {request.source.width, request.width, request.wanted.left, request.wanted.width, request.interpolation};
}

AxisRequest vertical_axis(const Resize& request) {
  return {request.source.height, request.height, request.wanted.top, request.wanted.height, request.interpolation};
}

/// One column of a strip, aligned to a cache line, so that loading it never touches two.
struct alignas(64) Column {
  std::array<float, kStripFloats> values{};
};

struct Scratch {
  ResizeAxis vertical;
  ResizeAxis horizontal;
  std::vector<Column> strip;
  std::vector<std::byte> spare_row;  ///< for the rows of the last strip that are not wanted
};

/// The beginnings of the output rows.
struct Rows {
  std::byte* begin = nullptr;
  std::ptrdiff_t bytes = 0;
  bool upside_down = false;
  int count = 0;

  [[nodiscard]] void* row(int y) const { return begin + (upside_down ? count - 1 - y : y) * bytes; }
};

/// Performs one resize, one strip of four rows after another. `Horizontal` is the kernel of the output's type.
class Strips {
 public:
  Strips(const PixelView& view, const Resize& request, const ResizeKernels& kernels)
      : view_(view), part_(needed(request)), kernels_(kernels), width_(request.wanted.width), flip_(request.flip) {
    assert(part_.left >= view.area.left && part_.right() <= view.area.right());
    assert(part_.top >= view.area.top && part_.bottom() <= view.area.bottom());
    scratch_.vertical.plan(vertical_axis(request));
    scratch_.horizontal.plan(horizontal_axis(request));
    const auto columns = static_cast<std::size_t>(part_.width) + static_cast<std::size_t>(scratch_.horizontal.taps) +
                         std::size_t{kStripSlack};
    if (scratch_.strip.size() < columns) {
      scratch_.strip.resize(columns);
    }
  }

  void write(const Rows& rows, void (*horizontal)(const HorizontalPass&), const std::array<float, 4>& scale,
             const std::array<float, 4>& bias) {
    const auto row_bytes = static_cast<std::size_t>(rows.bytes);
    if (scratch_.spare_row.size() < row_bytes) {
      scratch_.spare_row.resize(row_bytes);
    }
    HorizontalPass pass{.strip = strip(),
                        .first = scratch_.horizontal.first.data(),
                        .weights = scratch_.horizontal.weights.data(),
                        .taps = scratch_.horizontal.taps,
                        .width = width_,
                        .flip = flip_,
                        .scale = scale,
                        .bias = bias,
                        .rows = {}};
    for (int y = 0; y < rows.count; y += kStripRows) {
      for (int i = 0; i < kStripRows; ++i) {
        const bool wanted = y + i < rows.count;
        pass.rows[static_cast<std::size_t>(i)] = wanted ? rows.row(y + i) : scratch_.spare_row.data();
        if (wanted) {
          fetch(rows.row(y + i), rows.bytes);
          resample_vertically(y + i, strip() + std::ptrdiff_t{4} * i);
        }
      }
      horizontal(pass);
    }
  }

 private:
  /// Prefetches memory that will be written, so that stores do not wait: a batch is larger than the caches.
  static void fetch(const void* row, std::ptrdiff_t bytes) {
    constexpr std::ptrdiff_t kCacheLine = 64;
    for (std::ptrdiff_t at = 0; at < bytes; at += kCacheLine) {
      __builtin_prefetch(static_cast<const std::byte*>(row) + at, 1);
    }
  }

  void resample_vertically(int y, float* strip) {
    const auto position = static_cast<std::size_t>(y);
    const std::uint8_t* source = view_.at(part_.left, part_.top + scratch_.vertical.first[position]);
    kernels_.vertical(source, view_.row_bytes, scratch_.vertical.weights_of(y), scratch_.vertical.count[position],
                      part_.width, strip);
  }

  [[nodiscard]] float* strip() const { return scratch_.strip.front().values.data(); }

  static Scratch& scratch_of_this_thread() {
    thread_local Scratch scratch;
    return scratch;
  }

  const PixelView& view_;
  const Box part_;
  const ResizeKernels& kernels_;
  const int width_;
  const bool flip_;
  Scratch& scratch_ = scratch_of_this_thread();
};

[[maybe_unused]] bool wanted_is_inside(const Resize& request) {
  const Box& wanted = request.wanted;
  return wanted.width > 0 && wanted.height > 0 && wanted.left >= 0 && wanted.right() <= request.width &&
         wanted.top >= 0 && wanted.bottom() <= request.height;
}

const ResizeKernels& fastest_kernels() {
  static const ResizeKernels& kernels = *usable_resize_kernels().back();
  return kernels;
}

}  // namespace

std::span<const ResizeKernels* const> usable_resize_kernels() {
  static const std::vector<const ResizeKernels*> usable = [] {
    std::vector<const ResizeKernels*> found{&kPortableResize};
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2) {
      found.push_back(&kAvx2Resize);
    }
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      found.push_back(&kAvx512Resize);
    }
#endif
    return found;
  }();
  return usable;
}

Box needed(const Resize& request) {
  const AxisRange columns = range_of(horizontal_axis(request));
  const AxisRange rows = range_of(vertical_axis(request));
  return {request.source.left + columns.first, request.source.top + rows.first, columns.count, rows.count};
}

void resize(const PixelView& view, const Resize& request, const ChannelAffine& affine, const OutputPixels& out) {
  resize(view, request, affine, out, fastest_kernels());
}

void resize(const PixelView& view, const Resize& request, const ChannelAffine& affine, const OutputPixels& out,
            const ResizeKernels& kernels) {
  assert(wanted_is_inside(request) && out.width == request.wanted.width && out.height == request.wanted.height);
  const Rows rows{.begin = static_cast<std::byte*>(out.data),
                  .bytes = static_cast<std::ptrdiff_t>(bytes_of(out.type)) * out.width * 3,
                  .upside_down = request.flip_vertically,
                  .count = out.height};
  Strips(view, request, kernels)
      .write(rows, out.type == PixelType::Float32 ? kernels.to_float : kernels.to_bfloat16,
             {affine.scale[0], affine.scale[1], affine.scale[2], 0},
             {affine.bias[0], affine.bias[1], affine.bias[2], 0});
}

void resize_to_uint8(const PixelView& view, const Resize& request, std::uint8_t* out) {
  resize_to_uint8(view, request, out, fastest_kernels());
}

void resize_to_uint8(const PixelView& view, const Resize& request, std::uint8_t* out, const ResizeKernels& kernels) {
  assert(wanted_is_inside(request));
  const Rows rows{.begin = reinterpret_cast<std::byte*>(out),
                  .bytes = std::ptrdiff_t{kPixelBytes} * request.wanted.width,
                  .upside_down = request.flip_vertically,
                  .count = request.wanted.height};
  Strips(view, request, kernels).write(rows, kernels.to_uint8, {1, 1, 1, 0}, {0, 0, 0, 0});
}

Resize halved(const Resize& request) {
  Resize half = request;
  half.source.left = request.source.left / 2;
  half.source.top = request.source.top / 2;
  half.source.width = (request.source.right() + 1) / 2 - half.source.left;
  half.source.height = (request.source.bottom() + 1) / 2 - half.source.top;
  return half;
}

Box doubled(const Box& box, ImageSize picture) {
  const int left = 2 * box.left;
  const int top = 2 * box.top;
  return {left, top, std::min(2 * box.width, picture.width - left), std::min(2 * box.height, picture.height - top)};
}

}  // namespace rollcall::data
