#pragma once

#include <cstdint>
#include <vector>

#include "trainer/device/cuda/kernels/launch.h"
#include "trainer/device/cuda/kernels/statistics_bodies.h"
#include "trainer/torch.h"

// The bodies of the CUDA kernels on a CPU, on tensors.
namespace rollcall::device::kernels {

template <typename Body>
void run_tiles(const Body& body) {
  run_threads(body, body.tiling.channel_blocks, body.tiling.row_blocks);
}

template <typename T>
const T* values(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <typename T>
T* mutable_data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

/// Calls run.operator()<T>() with the type of `tensor`'s elements.
template <typename Run>
auto with_type_of(const at::Tensor& tensor, const Run& run) {
  return tensor.scalar_type() == at::kFloat  ? run.template operator()<float>()
         : tensor.scalar_type() == at::kHalf ? run.template operator()<at::Half>()
                                             : run.template operator()<at::BFloat16>();
}

/// with_vector of launch.h, for `x` [rows, channels].
template <typename Run>
auto with_tiling_of(const at::Tensor& x, const Run& run) {
  return with_type_of(x, [&]<typename T>() {
    constexpr unsigned kMost = kVector<T>;
    return x.size(1) % kMost == 0 ? run.template operator()<T, kMost>(tiling_of(x.size(0), x.size(1), kMost))
                                  : run.template operator()<T, 1>(tiling_of(x.size(0), x.size(1), 1));
  });
}

/// BatchNormStatistics::moments of `x` [rows, channels]: [2 channels + 1] float64.
inline at::Tensor moments_of(const at::Tensor& x, Order order = Order::Forwards) {
  const std::int64_t numbers = moment_numbers(x.size(1));
  at::Tensor moments = at::empty({numbers}, at::kDouble);
  with_tiling_of(x, [&]<typename T, unsigned K>(const Tiling& tiling) {
    const at::Tensor parts = at::empty({tiling.row_blocks, numbers}, at::kDouble);
    run_reduction(PartialStatistics<T, K>{tiling, values<T>(x), mutable_data<double>(parts)}, order);
    const MergedStatistics together{merging(tiling.row_blocks, tiling.channels), values<double>(parts),
                                    mutable_data<double>(moments), Statistics{}};
    run_reduction(together, order);
  });
  return moments;
}

/// What merge_statistics() writes.
struct Merged {
  at::Tensor mean, inverse_stddev, running_mean, running_variance, count;
};

/// Of `moments` [ranks, 2 channels + 1].
inline Merged merged(const at::Tensor& moments, double eps = 1e-5, double momentum = 0.1) {
  const std::int64_t channels = moments.size(1) / 2;
  const Merged to{at::empty({channels}), at::empty({channels}), at::zeros({channels}), at::ones({channels}),
                  at::empty({1}, at::kDouble)};
  const Statistics statistics{mutable_data<float>(to.mean),
                              mutable_data<float>(to.inverse_stddev),
                              mutable_data<double>(to.count),
                              mutable_data<float>(to.running_mean),
                              mutable_data<float>(to.running_variance),
                              eps,
                              momentum};
  run_reduction(MergedStatistics{merging(moments.size(0), channels), values<double>(moments), nullptr, statistics});
  return to;
}

/// The largest difference, in units of the expected tensor's largest value.
inline double largest_error(const at::Tensor& ours, const at::Tensor& exact) {
  const at::Tensor wanted = exact.to(at::kDouble);
  return ((ours.to(at::kDouble) - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30)).item<double>();
}

}  // namespace rollcall::device::kernels
