// The loops behind batch_norm_kernels.h. No include guard: batch_norm_kernels.cpp includes it once for each instruction
// set, and defines before
//   ROLLCALL_BATCH_NORM_ISA     its name, also of the namespace that the loops are in
//   ROLLCALL_BATCH_NORM_TARGET  the attribute that names it
//   ROLLCALL_BATCH_NORM_SET     the table to define
// The inner loops run over channels, and the compiler makes vectors of them (-O3; see trainer/CMakeLists.txt). An
// option for the whole file instead of the attribute would also compile what it includes for that instruction set.

namespace rollcall::model {
namespace ROLLCALL_BATCH_NORM_ISA {
namespace {

#define ROLLCALL_INLINE ROLLCALL_BATCH_NORM_TARGET inline __attribute__((always_inline))

ROLLCALL_INLINE float load(const float* from) { return *from; }
ROLLCALL_INLINE float load(const std::uint16_t* from) { return from_bfloat16(*from); }

ROLLCALL_INLINE void store(float* to, float value) { *to = value; }
ROLLCALL_INLINE void store(std::uint16_t* to, float value) { *to = to_bfloat16(value); }

// Both keep NaN, as LibTorch's do.
ROLLCALL_INLINE float relu(float value) { return 0 > value ? 0 : value; }
ROLLCALL_INLINE float below_relu(float gradient, float output) { return output <= 0 ? 0 : gradient; }

ROLLCALL_INLINE float normalised(float x, const ChannelScale& scale, std::int64_t c) {
  return (x - scale.mean[c]) * scale.factor[c] + scale.bias[c];
}

struct Pair {
  float first;
  float second;
};

/// Adds two numbers of each value to sums over the rows, four rows at a time: then a sum is loaded and stored once for
/// four values. value(i, c) gives the two numbers of element i of channel c; it may write, at i only.
template <typename Value>
ROLLCALL_INLINE void add_two_sums(std::int64_t rows, std::int64_t channels, float* first, float* second,
                                  const Value& value) {
  constexpr std::int64_t kRowsAtOnce = 4;
  std::int64_t row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) {
    const std::int64_t at = row * channels;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < channels; ++c) {
      const Pair a = value(at + c, c);
      const Pair b = value(at + channels + c, c);
      const Pair d = value(at + 2 * channels + c, c);
      const Pair e = value(at + 3 * channels + c, c);
      first[c] += (a.first + b.first) + (d.first + e.first);
      second[c] += (a.second + b.second) + (d.second + e.second);
    }
  }
  for (; row < rows; ++row) {
    const std::int64_t at = row * channels;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < channels; ++c) {
      const Pair a = value(at + c, c);
      first[c] += a.first;
      second[c] += a.second;
    }
  }
}

/// y[i] = value(i, c) for each element i of each channel c.
template <typename T, typename Value>
ROLLCALL_INLINE void map_rows(std::int64_t rows, std::int64_t channels, T* y, const Value& value) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row * channels;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < channels; ++c) {
      store(y + at + c, value(at + c, c));
    }
  }
}

template <typename T>
ROLLCALL_BATCH_NORM_TARGET void add_sums(const T* x, std::int64_t rows, std::int64_t channels, const float* shift,
                                         float* sum, float* squares) {
  add_two_sums(rows, channels, sum, squares, [=](std::int64_t i, std::int64_t c) ROLLCALL_BATCH_NORM_TARGET {
    const float d = load(x + i) - shift[c];
    return Pair{d, d * d};
  });
}

template <typename T>
ROLLCALL_BATCH_NORM_TARGET void normalise(const T* x, T* y, std::int64_t rows, std::int64_t channels,
                                          const ChannelScale& scale) {
  map_rows(rows, channels, y, [x, s = scale](std::int64_t i, std::int64_t c) ROLLCALL_BATCH_NORM_TARGET {
    return normalised(load(x + i), s, c);
  });
}

template <typename T>
ROLLCALL_BATCH_NORM_TARGET void normalise_relu(const T* x, T* y, std::int64_t rows, std::int64_t channels,
                                               const ChannelScale& scale) {
  map_rows(rows, channels, y, [x, s = scale](std::int64_t i, std::int64_t c) ROLLCALL_BATCH_NORM_TARGET {
    return relu(normalised(load(x + i), s, c));
  });
}

template <typename T>
ROLLCALL_BATCH_NORM_TARGET void normalise_add_relu(const T* x, const T* shortcut, T* y, std::int64_t rows,
                                                   std::int64_t channels, const ChannelScale& scale) {
  map_rows(rows, channels, y, [x, shortcut, s = scale](std::int64_t i, std::int64_t c) ROLLCALL_BATCH_NORM_TARGET {
    return relu(normalised(load(x + i), s, c) + load(shortcut + i));
  });
}

template <typename T>
ROLLCALL_BATCH_NORM_TARGET void add_gradient_sums(const T* gradient, const T* x, std::int64_t rows,
                                                  std::int64_t channels, const ChannelScale& scale, float* sum,
                                                  float* products) {
  add_two_sums(rows, channels, sum, products,
               [gradient, x, s = scale](std::int64_t i, std::int64_t c) ROLLCALL_BATCH_NORM_TARGET {
                 const float g = load(gradient + i);
                 return Pair{g, g * (load(x + i) - s.mean[c])};
               });
}

template <typename T>
ROLLCALL_BATCH_NORM_TARGET void add_relu_gradient_sums(const T* gradient, const T* x, std::int64_t rows,
                                                       std::int64_t channels, const ChannelScale& scale, float* sum,
                                                       float* products) {
  add_two_sums(rows, channels, sum, products,
               [gradient, x, s = scale](std::int64_t i, std::int64_t c) ROLLCALL_BATCH_NORM_TARGET {
                 const float input = load(x + i);
                 const float g = below_relu(load(gradient + i), normalised(input, s, c));
                 return Pair{g, g * (input - s.mean[c])};
               });
}

template <typename T>
ROLLCALL_BATCH_NORM_TARGET void add_shortcut_gradient_sums(const T* gradient, const T* y, const T* x, T* below,
                                                           std::int64_t rows, std::int64_t channels,
                                                           const ChannelScale& scale, float* sum, float* products) {
  add_two_sums(rows, channels, sum, products,
               [gradient, y, x, below, s = scale](std::int64_t i, std::int64_t c) ROLLCALL_BATCH_NORM_TARGET {
                 const float g = below_relu(load(gradient + i), load(y + i));
                 store(below + i, g);
                 return Pair{g, g * (load(x + i) - s.mean[c])};
               });
}

ROLLCALL_INLINE float input_gradient_of(float g, float x, const ChannelScale& s, const ChannelGradient& of_sums,
                                        std::int64_t c) {
  return (g - of_sums.mean_gradient[c] - (x - s.mean[c]) * of_sums.slope[c]) * s.factor[c];
}

template <typename T>
ROLLCALL_BATCH_NORM_TARGET void input_gradient(const T* gradient, const T* x, T* result, std::int64_t rows,
                                               std::int64_t channels, const ChannelScale& scale,
                                               const ChannelGradient& of_sums) {
  map_rows(rows, channels, result,
           [gradient, x, s = scale, o = of_sums](std::int64_t i, std::int64_t c)
               ROLLCALL_BATCH_NORM_TARGET { return input_gradient_of(load(gradient + i), load(x + i), s, o, c); });
}

template <typename T>
ROLLCALL_BATCH_NORM_TARGET void relu_input_gradient(const T* gradient, const T* x, T* result, std::int64_t rows,
                                                    std::int64_t channels, const ChannelScale& scale,
                                                    const ChannelGradient& of_sums) {
  map_rows(rows, channels, result,
           [gradient, x, s = scale, o = of_sums](std::int64_t i, std::int64_t c) ROLLCALL_BATCH_NORM_TARGET {
             const float input = load(x + i);
             const float g = below_relu(load(gradient + i), normalised(input, s, c));
             return input_gradient_of(g, input, s, o, c);
           });
}

template <typename T>
constexpr BatchNormKernels<T> kernels_of() {
  return {.add_sums = add_sums<T>,
          .normalise = normalise<T>,
          .normalise_relu = normalise_relu<T>,
          .normalise_add_relu = normalise_add_relu<T>,
          .add_gradient_sums = add_gradient_sums<T>,
          .add_relu_gradient_sums = add_relu_gradient_sums<T>,
          .add_shortcut_gradient_sums = add_shortcut_gradient_sums<T>,
          .input_gradient = input_gradient<T>,
          .relu_input_gradient = relu_input_gradient<T>};
}

}  // namespace
}  // namespace ROLLCALL_BATCH_NORM_ISA

#define ROLLCALL_NAME_OF(isa) #isa
#define ROLLCALL_NAME_OF_VALUE(isa) ROLLCALL_NAME_OF(isa)
const BatchNormKernelSet ROLLCALL_BATCH_NORM_SET{.name = ROLLCALL_NAME_OF_VALUE(ROLLCALL_BATCH_NORM_ISA),
                                                 .float32 = ROLLCALL_BATCH_NORM_ISA::kernels_of<float>(),
                                                 .bfloat16 = ROLLCALL_BATCH_NORM_ISA::kernels_of<std::uint16_t>()};

}  // namespace rollcall::model

#undef ROLLCALL_NAME_OF
#undef ROLLCALL_NAME_OF_VALUE
#undef ROLLCALL_INLINE
#undef ROLLCALL_BATCH_NORM_ISA
#undef ROLLCALL_BATCH_NORM_TARGET
#undef ROLLCALL_BATCH_NORM_SET
