#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define ROLLCALL_HOST_DEVICE __host__ __device__
#else
#define ROLLCALL_HOST_DEVICE
#endif

namespace rollcall::device::kernels {

// What the kernels compute of single values, on a GPU and, for the tests, on a CPU. Both round alike: every operation
// here is one of IEEE 754, products are added without a rounding between only where std::fma says so (nvcc gets
// -fmad=false), and square roots and quotients are exactly rounded ones. So a CPU computes the very bits that a GPU
// would.
//
// NaN and infinities go through everything, as they go through LibTorch's operators.

/// An 8-bit level as a model sees it: (level / 255 - mean) / deviation, in the form level * scale + bias, rounded once.
/// It is what data::resize() makes of a level on the CPU, to the last bit; scale and bias are those of
/// data::Normalisation::affine().
ROLLCALL_HOST_DEVICE inline float normalised_level(std::uint8_t level, float scale, float bias) {
  return std::fma(static_cast<float>(level), scale, bias);
}

/// Mean and sum of squared distances from it of some values, for each of K channels, which have the same number of
/// values. Trivial, so that it can stand in a block's shared memory. Sources: Welford 1962; Chan, Golub and LeVeque
/// 1979.
template <typename Real, unsigned K>
struct Moments {
  Real count;
  Real mean[K];
  Real m2[K];
};

/// One more value for each channel.
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

/// The values of both. Where one of them has none, the other one to the last bit.
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

/// Two sums for each of K channels. Trivial, as Moments.
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

/// 1 / sqrt(variance + eps) with the biased variance, m2 / count.
ROLLCALL_HOST_DEVICE inline double inverse_deviation_of(double m2, double count, double eps) {
  return 1 / std::sqrt(m2 / count + eps);
}

/// What the running variance takes in, as LibTorch's does: m2 / (count - 1). NaN where there is only one value.
ROLLCALL_HOST_DEVICE inline double unbiased_variance(double m2, double count) { return m2 / (count - 1); }

/// A running statistic after a batch.
ROLLCALL_HOST_DEVICE inline float updated(float running, double batch, double momentum) {
  return static_cast<float>((1 - momentum) * running + momentum * batch);
}

/// What normalises one channel; factor = weight * inverse deviation.
struct ChannelScale {
  float mean;
  float factor;
  float bias;
};

ROLLCALL_HOST_DEVICE inline float normalised(float x, const ChannelScale& scale) {
  return std::fma(x - scale.mean, scale.factor, scale.bias);
}

// Both keep NaN, as LibTorch's do.
ROLLCALL_HOST_DEVICE inline float relu(float value) { return value < 0 ? 0 : value; }
ROLLCALL_HOST_DEVICE inline float below_relu(float gradient, float output) { return output <= 0 ? 0 : gradient; }

/// What makes one channel's gradient of x of that of the output: the mean of the output's gradient, and the mean of its
/// product with x - mean, times the inverse deviation squared.
struct ChannelGradient {
  float mean_gradient;
  float slope;
};

ROLLCALL_HOST_DEVICE inline float input_gradient(float gradient, float x, const ChannelScale& scale,
                                                 const ChannelGradient& of_sums) {
  return std::fma(scale.mean - x, of_sums.slope, gradient - of_sums.mean_gradient) * scale.factor;
}

/// What a gradient's element becomes in another type or on another scale; `to` rounds to nearest even.
template <typename To, typename From>
ROLLCALL_HOST_DEVICE inline To scaled(From value, float scale) {
  return static_cast<To>(static_cast<float>(value) * scale);
}

}  // namespace rollcall::device::kernels
