#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define ROLLCALL_HOST_DEVICE __host__ __device__
#else
#define ROLLCALL_HOST_DEVICE
#endif
/// Before a loop of which the compiler would make copies, which need more registers.
#ifdef __CUDA_ARCH__
#define ROLLCALL_AS_A_LOOP _Pragma("unroll 1")
#else
#define ROLLCALL_AS_A_LOOP
#endif

namespace rollcall::device::kernels {

// The arithmetic of the kernels on single values, for a GPU and, in tests, for a CPU. Both round alike: every operation
// is one of IEEE 754, products are added without intermediate rounding only in std::fma (nvcc gets -fmad=false), and
// square roots and quotients are correctly rounded. So the results of CPU and GPU are bit-identical.
//
// NaN and infinities propagate, as in LibTorch's operators.

/// Normalises an 8-bit value: (level / 255 - mean) / std, in the form level * scale + bias, rounded once. The result is
/// bit-identical to that of data::resize() on the CPU; scale and bias are those of data::Normalisation::affine().
ROLLCALL_HOST_DEVICE inline float normalised_level(std::uint8_t level, float scale, float bias) {
  return std::fma(static_cast<float>(level), scale, bias);
}

/// Count, mean and sum of squared distances from the mean of some values, for each of K channels, which have the same
/// number of values. A trivial type, for a block's shared memory. Sources: Welford 1962; Chan, Golub and LeVeque 1979.
template <typename Real, unsigned K>
struct Moments {
  Real count;
  Real mean[K];
  Real m2[K];
};

/// Adds one value to each channel.
template <typename Real, unsigned K>
ROLLCALL_HOST_DEVICE inline void add_values(Moments<Real, K>& moments, const Real (&values)[K]) {
  moments.count += 1;
  const Real part = 1 / moments.count;
  for (unsigned k = 0; k < K; ++k) {
    const Real before = values[k] - moments.mean[k];
    moments.mean[k] = std::fma(before, part, moments.mean[k]);
    moments.m2[k] = std::fma(before, values[k] - moments.mean[k], moments.m2[k]);
  }
}

/// Merges the values of both. If one of them has none, the result is the other one exactly.
template <typename Real, unsigned K>
ROLLCALL_HOST_DEVICE inline void merge(Moments<Real, K>& into, const Moments<Real, K>& other) {
  if (into.count == 0 || other.count == 0) {
    into = other.count == 0 ? into : other;
    return;
  }
  const Real count = into.count + other.count;
  const Real part = other.count / count;
  for (unsigned k = 0; k < K; ++k) {
    const Real delta = other.mean[k] - into.mean[k];
    into.mean[k] = std::fma(delta, part, into.mean[k]);
    into.m2[k] += std::fma(delta * delta, into.count * part, other.m2[k]);
  }
  into.count = count;
}

/// Two sums for each of K channels. A trivial type, as Moments.
template <typename Real, unsigned K>
struct Sums {
  Real first[K];
  Real second[K];
};

template <typename Real, unsigned K>
ROLLCALL_HOST_DEVICE inline void merge(Sums<Real, K>& into, const Sums<Real, K>& other) {
  for (unsigned k = 0; k < K; ++k) {
    into.first[k] += other.first[k];
    into.second[k] += other.second[k];
  }
}

/// Returns 1 / sqrt(variance + eps) with the biased variance, m2 / count.
ROLLCALL_HOST_DEVICE inline double inverse_stddev_of(double m2, double count, double eps) {
  return 1 / std::sqrt(m2 / count + eps);
}

/// Returns m2 / (count - 1), which updates the running variance, as in LibTorch. NaN for a single value.
ROLLCALL_HOST_DEVICE inline double unbiased_variance(double m2, double count) { return m2 / (count - 1); }

/// Returns a running statistic after a batch.
ROLLCALL_HOST_DEVICE inline float updated(float running, double batch, double momentum) {
  return static_cast<float>((1 - momentum) * running + momentum * batch);
}

/// The parameters that normalise one channel; factor = weight * inverse_stddev.
struct ChannelScale {
  float mean;
  float factor;
  float bias;
};

ROLLCALL_HOST_DEVICE inline float normalised(float x, const ChannelScale& scale) {
  return std::fma(x - scale.mean, scale.factor, scale.bias);
}

// Both treat NaN as LibTorch's operators do: it stays, and passes gradients.
ROLLCALL_HOST_DEVICE inline float relu(float value) { return value < 0 ? 0 : value; }
template <typename T>
ROLLCALL_HOST_DEVICE inline bool is_passed(T output) {
  return !(static_cast<float>(output) <= 0);
}

/// Returns the sum rounded to the type, as LibTorch's addition does.
template <typename T>
ROLLCALL_HOST_DEVICE inline T added(T one, T other) {
  return static_cast<T>(static_cast<float>(one) + static_cast<float>(other));
}

/// One channel's terms of the gradient of x: the mean of the output's gradient, and the mean of its product with x -
/// mean times inverse_stddev squared.
struct ChannelGradient {
  float mean_gradient;
  float slope;
};

ROLLCALL_HOST_DEVICE inline float input_gradient(float gradient, float x, const ChannelScale& scale,
                                                 const ChannelGradient& of_sums) {
  return std::fma(scale.mean - x, of_sums.slope, gradient - of_sums.mean_gradient) * scale.factor;
}

/// Scales a gradient's element and converts it to another type, rounding to nearest even.
template <typename To, typename From>
ROLLCALL_HOST_DEVICE inline To scaled(From value, float scale) {
  return static_cast<To>(static_cast<float>(value) * scale);
}

}  // namespace rollcall::device::kernels
