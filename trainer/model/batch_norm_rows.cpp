#include <ATen/Parallel.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <type_traits>
#include <utility>

#include "trainer/model/batch_norm_kernels.h"
#include "trainer/model/batch_norm_sums.h"

/// Runs function(data) on `threads` threads of the pool that LibTorch's operators use (libgomp's manual, "Implementing
/// PARALLEL construct"). at::parallel_for, a template, would need this file compiled with OpenMP, and clang's is
/// another library.
extern "C" void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags);

namespace rollcall::model {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
/// Values that a thread does not share, and that are added up in float32: 128 KiB of float32.
constexpr std::int64_t kBlockValues = 32768;

/// x as the kernels see it.
struct Shape {
  explicit Shape(const at::Tensor& x) : channels(x.size(1)), rows(channels == 0 ? 0 : x.numel() / channels) {}

  [[nodiscard]] std::int64_t block_rows() const { return std::max<std::int64_t>(4, kBlockValues / channels); }

  std::int64_t channels;
  std::int64_t rows;
};

std::int64_t divide_up(std::int64_t number, std::int64_t by) { return (number + by - 1) / by; }

at::Tensor as_input(const at::Tensor& x, const at::Tensor& other) {
  return other.to(x.scalar_type()).contiguous(kChannelsLast);
}

template <typename T>
const T* data(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <typename T>
T* mutable_data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

template <typename T>
const BatchNormKernels<T>& fastest_kernels() {
  static const BatchNormKernelSet& set = *usable_batch_norm_kernels().back();
  if constexpr (std::is_same_v<T, float>) {
    return set.float32;
  } else {
    return set.bfloat16;
  }
}

/// Calls work.operator()<T>() with the element type of x.
template <typename Work>
auto with_type_of(const at::Tensor& x, const Work& work) {
  return x.scalar_type() == at::kFloat ? work.template operator()<float>() : work.template operator()<std::uint16_t>();
}

/// Calls work(part) for each of `parts` parts, on the threads of LibTorch's operators. On several threads it must not
/// throw.
template <typename Work>
void for_each_part(std::int64_t parts, const Work& work) {
  struct Region {
    void run() {
      for (std::int64_t part = next++; part < parts; part = next++) {
        work(part);
      }
    }
    const Work& work;
    const std::int64_t parts;
    std::atomic<std::int64_t> next = 0;
  } region{work, parts};
  if (parts <= 1 || at::get_num_threads() == 1 || at::in_parallel_region()) {
    region.run();
  } else {
    // The whole team each time, as LibTorch's own loops: teams of changing sizes cost new threads, and leaked (PyTorch
    // issue 32008).
    GOMP_parallel([](void* data) noexcept { static_cast<Region*>(data)->run(); }, &region, 0, 0);
  }
}

/// Calls work(first row, number of rows) for parts of the rows, on all threads.
template <typename Work>
void over_rows(const Shape& shape, const Work& work) {
  const std::int64_t parts =
      std::clamp<std::int64_t>(divide_up(shape.rows, shape.block_rows()), 1, at::get_num_threads());
  const std::int64_t rows = divide_up(shape.rows, parts);
  for_each_part(parts, [&](std::int64_t part) {
    const std::int64_t first = std::min(shape.rows, part * rows);
    work(first, std::min(rows, shape.rows - first));
  });
}

/// add(first row, number of rows, first, second) adds to two float sums a channel; their totals: [2 C] float64.
template <typename Add>
at::Tensor two_sums(const Shape& shape, const Add& add) {
  const std::int64_t channels = shape.channels;
  const std::int64_t block = shape.block_rows();
  const std::int64_t blocks = divide_up(shape.rows, block);
  const std::int64_t parts = std::clamp<std::int64_t>(blocks, 1, at::get_num_threads());
  const std::int64_t part_rows = divide_up(blocks, parts) * block;
  const at::Tensor totals = at::zeros({parts, 2 * channels}, at::kDouble);
  const at::Tensor sums = at::empty({parts, 2 * channels}, at::kFloat);
  auto* const total = totals.mutable_data_ptr<double>();
  auto* const block_sums = sums.mutable_data_ptr<float>();
  for_each_part(parts, [&](std::int64_t part) {
    double* const mine = total + part * 2 * channels;
    float* const sum = block_sums + part * 2 * channels;
    const std::int64_t last = std::min(shape.rows, (part + 1) * part_rows);
    for (std::int64_t row = part * part_rows; row < last; row += block) {
      std::fill_n(sum, 2 * channels, 0.0F);
      add(row, std::min(block, last - row), sum, sum + channels);
      std::transform(sum, sum + 2 * channels, mine, mine, [](float value, double before) { return before + value; });
    }
  });
  return parts == 1 ? totals[0] : totals.sum(0);
}

/// What kernels want of an Affine, and what keeps it alive.
class Scale {
 public:
  explicit Scale(const Affine& affine)
      : mean_(affine.mean.to(at::kFloat)),
        factor_((affine.inverse_deviation * affine.weight).to(at::kFloat)),
        bias_(affine.bias.to(at::kFloat)) {}

  [[nodiscard]] ChannelScale view() const { return {data<float>(mean_), data<float>(factor_), data<float>(bias_)}; }

 private:
  at::Tensor mean_, factor_, bias_;
};

/// Sums are taken in float32 over some thousand values, then in float64; their order depends on the number of threads,
/// as LibTorch's does.
class RowPasses final : public SumPasses {
 public:
  bool take(const at::Tensor& x, const at::Tensor& /*weight*/) const override {
    const bool type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
    return type && x.device().is_cpu() && x.layout() == at::kStrided && x.dim() == 4 &&
           x.is_contiguous(kChannelsLast) && x.size(1) > 0;
  }

  at::Tensor normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue,
                       const at::Tensor& shortcut) const override {
    const torch::NoGradGuard no_grad;
    const Shape shape(x);
    const std::int64_t channels = shape.channels;
    const Scale scale(affine);
    at::Tensor y = at::empty_like(x);
    const at::Tensor added = epilogue == Epilogue::AddRelu ? as_input(x, shortcut) : at::Tensor();
    with_type_of(x, [&]<typename T>() {
      over_rows(shape, [&](std::int64_t row, std::int64_t rows) {
        const T* const from = data<T>(x) + row * channels;
        T* const to = mutable_data<T>(y) + row * channels;
        if (epilogue == Epilogue::AddRelu) {
          fastest_kernels<T>().normalise_add_relu(from, data<T>(added) + row * channels, to, rows, channels,
                                                  scale.view());
        } else if (epilogue == Epilogue::Relu) {
          fastest_kernels<T>().normalise_relu(from, to, rows, channels, scale.view());
        } else {
          fastest_kernels<T>().normalise(from, to, rows, channels, scale.view());
        }
      });
    });
    return y;
  }

 protected:
  at::Tensor input_sums(const at::Tensor& x) const override {
    const Shape shape(x);
    const std::int64_t channels = shape.channels;
    at::Tensor sums = at::zeros({2 * channels + 1}, at::kDouble);
    if (shape.rows == 0) {
      return sums;
    }
    // Around a value of each channel, so that squares do not drown the variance in float32.
    const at::Tensor shift = x.select(0, 0).select(1, 0).select(1, 0).to(at::kFloat).contiguous();
    const at::Tensor shifted = with_type_of(x, [&]<typename T>() {
      return two_sums(shape, [&](std::int64_t row, std::int64_t rows, float* sum, float* squares) {
        fastest_kernels<T>().add_sums(data<T>(x) + row * channels, rows, channels, data<float>(shift), sum, squares);
      });
    });
    const auto count = static_cast<double>(shape.rows);
    const auto* const around = data<float>(shift);
    const auto* const shifted_sum = data<double>(shifted);
    auto* const sum = mutable_data<double>(sums);
    for (std::int64_t c = 0; c < channels; ++c) {
      const double s = around[c];
      sum[c] = shifted_sum[c] + count * s;
      sum[channels + c] = shifted_sum[channels + c] + s * (2 * shifted_sum[c] + count * s);
    }
    sum[2 * channels] = count;
    return sums;
  }

  OutputGradient below_epilogue(at::Tensor gradient, const Normalised& of) const override {
    const at::Tensor& x = of.x;
    const Shape shape(x);
    const std::int64_t channels = shape.channels;
    const Scale scale(of.affine);
    const bool ours = is_ours_alone(gradient);
    gradient = as_input(x, gradient);
    const bool adds = of.epilogue == Epilogue::AddRelu;
    OutputGradient below{.values = adds && !ours ? at::empty_like(x) : gradient,
                         .above_relu = of.epilogue == Epilogue::Relu,
                         .sums = {}};
    below.sums = with_type_of(x, [&]<typename T>() {
      return two_sums(shape, [&](std::int64_t row, std::int64_t rows, float* sum, float* products) {
        const std::int64_t at = row * channels;
        const T* const from = data<T>(gradient) + at;
        if (adds) {
          fastest_kernels<T>().add_shortcut_gradient_sums(from, data<T>(of.y) + at, data<T>(x) + at,
                                                          mutable_data<T>(below.values) + at, rows, channels,
                                                          scale.view(), sum, products);
        } else if (of.epilogue == Epilogue::Relu) {
          fastest_kernels<T>().add_relu_gradient_sums(from, data<T>(x) + at, rows, channels, scale.view(), sum,
                                                      products);
        } else {
          fastest_kernels<T>().add_gradient_sums(from, data<T>(x) + at, rows, channels, scale.view(), sum, products);
        }
      });
    });
    return below;
  }

  at::Tensor input_gradient(OutputGradient gradient, const Normalised& of) const override {
    const at::Tensor& x = of.x;
    const Shape shape(x);
    const std::int64_t channels = shape.channels;
    const Scale scale(of.affine);
    const at::Tensor means = gradient.sums / of.count;
    const at::Tensor mean_gradient = means.narrow(0, 0, channels).to(at::kFloat);
    const at::Tensor slope = means.narrow(0, channels, channels).to(at::kFloat) * of.affine.inverse_deviation.square();
    const ChannelGradient of_sums{data<float>(mean_gradient), data<float>(slope)};
    at::Tensor result = is_ours_alone(gradient.values) ? gradient.values : at::empty_like(x);
    with_type_of(x, [&]<typename T>() {
      const auto pass =
          gradient.above_relu ? fastest_kernels<T>().relu_input_gradient : fastest_kernels<T>().input_gradient;
      over_rows(shape, [&](std::int64_t row, std::int64_t rows) {
        const std::int64_t at = row * channels;
        pass(data<T>(gradient.values) + at, data<T>(x) + at, mutable_data<T>(result) + at, rows, channels, scale.view(),
             of_sums);
      });
    });
    return result;
  }
};

}  // namespace

BatchNormPassesPtr row_passes() {
  static const BatchNormPassesPtr passes = c10::make_intrusive<RowPasses>();
  return passes;
}

}  // namespace rollcall::model
