#include "trainer/model/batch_norm.h"

#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainer/model/batch_norm_kernels.h"

// clang, whose OpenMP is another library than LibTorch's, compiles no program that anybody trains with.
#if !defined(_OPENMP) && !defined(__clang__)
#error "at::parallel_for is a template: without OpenMP in this file it uses one thread"
#endif

namespace rollcall::model {
namespace {

// The passes of batch_norm.h for CPU tensors in channels-last memory, float32 or bfloat16, by the kernels of
// batch_norm_kernels.h: every pass reads its inputs once, and the epilogue costs no pass of its own. Sums are taken in
// float32 over some thousand values, then in float64; their order depends on the number of threads, as LibTorch's
// does.
namespace rows {

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

/// Nobody else can see what is written into it.
bool is_ours_alone(const at::Tensor& tensor) { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

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
      : mean_(affine.statistics.mean.to(at::kFloat)),
        factor_((affine.statistics.inverse_deviation * affine.weight).to(at::kFloat)),
        bias_(affine.bias.to(at::kFloat)) {}

  [[nodiscard]] ChannelScale view() const { return {data<float>(mean_), data<float>(factor_), data<float>(bias_)}; }

 private:
  at::Tensor mean_, factor_, bias_;
};

bool fit(const at::Tensor& x) {
  const bool type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  return type && x.device().is_cpu() && x.layout() == at::kStrided && x.dim() == 4 && x.is_contiguous(kLayout) &&
         x.size(1) > 0;
}

at::Tensor input_sums(const at::Tensor& x) {
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

at::Tensor normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue, const at::Tensor& shortcut) {
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

OutputGradient below_epilogue(at::Tensor gradient, const at::Tensor& y, const at::Tensor& x, const Affine& affine,
                              Epilogue epilogue) {
  const Shape shape(x);
  const std::int64_t channels = shape.channels;
  const Scale scale(affine);
  const bool ours = is_ours_alone(gradient);
  gradient = like(x, gradient);
  const bool adds = epilogue == Epilogue::AddRelu;
  OutputGradient below{
      .values = adds && !ours ? at::empty_like(x) : gradient, .above_relu = epilogue == Epilogue::Relu, .sums = {}};
  below.sums = with_type_of(x, [&]<typename T>() {
    return two_sums(shape, [&](std::int64_t row, std::int64_t rows, float* sum, float* products) {
      const std::int64_t at = row * channels;
      const T* const from = data<T>(gradient) + at;
      if (adds) {
        kernels<T>().add_shortcut_gradient_sums(from, data<T>(y) + at, data<T>(x) + at,
                                                mutable_data<T>(below.values) + at, rows, channels, scale.view(), sum,
                                                products);
      } else if (epilogue == Epilogue::Relu) {
        kernels<T>().add_relu_gradient_sums(from, data<T>(x) + at, rows, channels, scale.view(), sum, products);
      } else {
        kernels<T>().add_gradient_sums(from, data<T>(x) + at, rows, channels, scale.view(), sum, products);
      }
    });
  });
  return below;
}

at::Tensor input_gradient(OutputGradient gradient, const at::Tensor& x, const Affine& affine) {
  const Shape shape(x);
  const std::int64_t channels = shape.channels;
  const BatchStatistics& statistics = affine.statistics;
  const Scale scale(affine);
  const at::Tensor means = gradient.sums / statistics.count;
  const at::Tensor mean_gradient = means.narrow(0, 0, channels).to(at::kFloat);
  const at::Tensor slope = means.narrow(0, channels, channels).to(at::kFloat) * statistics.inverse_deviation.square();
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

}  // namespace rows

constexpr std::array<std::int64_t, 3> kAllButChannels{0, 2, 3};

at::Tensor by_channel(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

}  // namespace

at::ScalarType statistics_type(const at::Tensor& x) { return at::toOpMathType(x.scalar_type()); }

at::Tensor input_sums(const at::Tensor& x) {
  const torch::NoGradGuard no_grad;
  if (rows::fit(x)) {
    return rows::input_sums(x);
  }
  const std::int64_t channels = x.size(1);
  at::Tensor sums = at::zeros({2 * channels + 1}, x.options().dtype(at::kDouble));
  if (x.numel() == 0) {
    return sums;
  }
  const auto count = static_cast<double>(x.numel() / channels);
  const auto [variance, mean] = at::var_mean(x.to(statistics_type(x)), kAllButChannels, /*correction=*/0);
  const at::Tensor exact_mean = mean.to(at::kDouble);
  sums.narrow(0, 0, channels).copy_(exact_mean * count);
  sums.narrow(0, channels, channels).copy_((variance.to(at::kDouble) + exact_mean.square()) * count);
  sums[2 * channels] = count;
  return sums;
}

BatchStatistics statistics_of(const at::Tensor& sums, double eps, at::ScalarType type) {
  const torch::NoGradGuard no_grad;
  const std::int64_t channels = sums.size(0) / 2;
  const double count = sums[2 * channels].item<double>();
  TORCH_CHECK(count > 1, "batch normalisation in training needs more than one value a channel, and has ", count,
              " in all; a larger batch or larger images");
  const at::Tensor mean = sums.narrow(0, 0, channels) / count;
  const at::Tensor variance = (sums.narrow(0, channels, channels) / count - mean.square()).clamp_min_(0);
  return {.mean = mean.to(type),
          .variance = variance.to(type),
          .inverse_deviation = (variance + eps).rsqrt_().to(type),
          .count = count};
}

at::Tensor normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue, const at::Tensor& shortcut) {
  const torch::NoGradGuard no_grad;
  if (rows::fit(x)) {
    return rows::normalise(x, affine, epilogue, shortcut);
  }
  const BatchStatistics& statistics = affine.statistics;
  at::Tensor y = (x - by_channel(statistics.mean)).mul_(by_channel(statistics.inverse_deviation * affine.weight));
  y.add_(by_channel(affine.bias));
  if (epilogue == Epilogue::AddRelu) {
    y.add_(shortcut);
  }
  if (epilogue != Epilogue::None) {
    y.relu_();
  }
  return y.to(x.scalar_type());
}

OutputGradient below_epilogue(at::Tensor gradient, const at::Tensor& y, const at::Tensor& x, const Affine& affine,
                              Epilogue epilogue) {
  const torch::NoGradGuard no_grad;
  if (rows::fit(x)) {
    return rows::below_epilogue(std::move(gradient), y, x, affine, epilogue);
  }
  at::Tensor values = epilogue == Epilogue::None ? gradient : at::threshold_backward(gradient, y, 0);
  const at::Tensor exact = values.to(statistics_type(x));
  const at::Tensor products = (x - by_channel(affine.statistics.mean)).mul_(exact);
  return {.values = values,
          .above_relu = false,
          .sums = at::cat({exact.sum(kAllButChannels), products.sum(kAllButChannels)}).to(at::kDouble)};
}

at::Tensor input_gradient(OutputGradient gradient, const at::Tensor& x, const Affine& affine) {
  const torch::NoGradGuard no_grad;
  if (rows::fit(x)) {
    return rows::input_gradient(std::move(gradient), x, affine);
  }
  const std::int64_t channels = x.size(1);
  const BatchStatistics& statistics = affine.statistics;
  const at::Tensor means = (gradient.sums / statistics.count).to(statistics_type(x));
  const at::Tensor slope = means.narrow(0, channels, channels) * statistics.inverse_deviation.square();
  at::Tensor result = (x - by_channel(statistics.mean)).mul_(by_channel(slope)).neg_();
  result.add_(gradient.values).sub_(by_channel(means.narrow(0, 0, channels)));
  return result.mul_(by_channel(statistics.inverse_deviation * affine.weight)).to(x.scalar_type());
}

}  // namespace rollcall::model
