#include <ATen/Parallel.h>
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainer/model/batch_norm_kernels.h"
#include "trainer/model/batch_norm_sums.h"

// clang, whose OpenMP is another library than LibTorch's, compiles no program that anybody trains with.
#if !defined(_OPENMP) && !defined(__clang__)
#error "at::parallel_for is a template: without OpenMP in this file it uses one thread"
#endif

namespace rollcall::model {
namespace {

constexpr auto kLayout = at::MemoryFormat::ChannelsLast;
/// Values that a thread does not share, and that are added up in float32: 128 KiB of float32.
constexpr std::int64_t kBlockValues = 32768;

/// x as the kernels see it.
struct Shape {
  explicit Shape(const at::Tensor& x) : channels(x.size(1)), rows(channels == 0 ? 0 : x.numel() / channels) {}

  [[nodiscard]] std::int64_t block_rows() const { return std::max<std::int64_t>(4, kBlockValues / channels); }

  std::int64_t channels;
  std::int64_t rows;
};

at::Tensor like(const at::Tensor& x, const at::Tensor& other) { return other.to(x.scalar_type()).contiguous(kLayout); }

template <typename T>
const T* data(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <typename T>
T* mutable_data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

template <typename T>
const BatchNormKernels<T>& kernels() {
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

/// Calls work(first row, number of rows) for parts of the rows, on all threads.
template <typename Work>
void over_rows(const Shape& shape, const Work& work) {
  at::parallel_for(0, shape.rows, shape.block_rows(),
                   [&](std::int64_t begin, std::int64_t end) { work(begin, end - begin); });
}

/// add(first row, number of rows, first, second) adds to two float sums a channel; their totals: [2 C] float64.
template <typename Add>
at::Tensor two_sums(const Shape& shape, const Add& add) {
  const std::int64_t channels = shape.channels;
  const std::int64_t block = shape.block_rows();
  const std::int64_t blocks = (shape.rows + block - 1) / block;
  const std::int64_t parts = std::clamp<std::int64_t>(blocks, 1, at::get_num_threads());
  const std::int64_t part_rows = (blocks + parts - 1) / parts * block;
  const at::Tensor totals = at::zeros({parts, 2 * channels}, at::kDouble);
  auto* const total = totals.mutable_data_ptr<double>();
  at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sums(static_cast<std::size_t>(2 * channels));
    for (std::int64_t part = begin; part < end; ++part) {
      double* const mine = total + part * 2 * channels;
      const std::int64_t last = std::min(shape.rows, (part + 1) * part_rows);
      for (std::int64_t row = part * part_rows; row < last; row += block) {
        std::fill(sums.begin(), sums.end(), 0.0F);
        add(row, std::min(block, last - row), sums.data(), sums.data() + channels);
        std::transform(sums.begin(), sums.end(), mine, mine, [](float sum, double before) { return before + sum; });
      }
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
    return type && x.device().is_cpu() && x.layout() == at::kStrided && x.dim() == 4 && x.is_contiguous(kLayout) &&
           x.size(1) > 0;
  }

  at::Tensor normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue,
                       const at::Tensor& shortcut) const override {
    const torch::NoGradGuard no_grad;
    const Shape shape(x);
    const std::int64_t channels = shape.channels;
    const Scale scale(affine);
    at::Tensor y = at::empty_like(x);
    const at::Tensor added = epilogue == Epilogue::AddRelu ? like(x, shortcut) : at::Tensor();
    with_type_of(x, [&]<typename T>() {
      over_rows(shape, [&](std::int64_t row, std::int64_t rows) {
        const T* const from = data<T>(x) + row * channels;
        T* const to = mutable_data<T>(y) + row * channels;
        if (epilogue == Epilogue::AddRelu) {
          kernels<T>().normalise_add_relu(from, data<T>(added) + row * channels, to, rows, channels, scale.view());
        } else if (epilogue == Epilogue::Relu) {
          kernels<T>().normalise_relu(from, to, rows, channels, scale.view());
        } else {
          kernels<T>().normalise(from, to, rows, channels, scale.view());
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
        kernels<T>().add_sums(data<T>(x) + row * channels, rows, channels, data<float>(shift), sum, squares);
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
    gradient = like(x, gradient);
    const bool adds = of.epilogue == Epilogue::AddRelu;
    OutputGradient below{.values = adds && !ours ? at::empty_like(x) : gradient,
                         .above_relu = of.epilogue == Epilogue::Relu,
                         .sums = {}};
    below.sums = with_type_of(x, [&]<typename T>() {
      return two_sums(shape, [&](std::int64_t row, std::int64_t rows, float* sum, float* products) {
        const std::int64_t at = row * channels;
        const T* const from = data<T>(gradient) + at;
        if (adds) {
          kernels<T>().add_shortcut_gradient_sums(from, data<T>(of.y) + at, data<T>(x) + at,
                                                  mutable_data<T>(below.values) + at, rows, channels, scale.view(), sum,
                                                  products);
        } else if (of.epilogue == Epilogue::Relu) {
          kernels<T>().add_relu_gradient_sums(from, data<T>(x) + at, rows, channels, scale.view(), sum, products);
        } else {
          kernels<T>().add_gradient_sums(from, data<T>(x) + at, rows, channels, scale.view(), sum, products);
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
      const auto pass = gradient.above_relu ? kernels<T>().relu_input_gradient : kernels<T>().input_gradient;
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
