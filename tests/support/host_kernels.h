#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/launch_on_host.h"
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

/// Makes parts of blocks and merges them, in one kernel or in two.
template <typename Body, typename Merging>
void run_merged_reduction(const Body& body, const Merging& merging, bool at_once, Order order = Order::Forwards) {
  if (!at_once) {
    run_reduction(body, order);
    run_reduction(merging, order);
    return;
  }
  const at::Tensor counters = at::zeros({kCountersOfAChannel * body.tiling.channels}, at::kInt);
  run_merging_reduction(body, merging, mutable_data<std::uint32_t>(counters), order);
  TORCH_CHECK(counters.eq(0).all().item<bool>(), "the next kernel counts from 0 too");
}

/// BatchNormStatistics::moments of `x` [rows, channels]: [2 channels + 1] float64.
inline at::Tensor moments_of(const at::Tensor& x, Order order = Order::Forwards, bool at_once = false) {
  at::Tensor moments = at::empty({2 * x.size(1) + 1}, at::kDouble);
  with_tiling_of(x, [&]<typename T, unsigned K>(const Tiling& tiling) {
    const MomentLayout layout = PartialStatistics<T, K>{tiling, nullptr, nullptr}.layout();
    const at::Tensor parts = at::empty({tiling.row_blocks + kGroups, layout.size()}, at::kDouble);
    auto* const first = mutable_data<double>(parts);
    const MergedStatistics together{merging(tiling.row_blocks, tiling.channels),
                                    layout,
                                    first,
                                    first + tiling.row_blocks * layout.size(),
                                    mutable_data<double>(moments),
                                    Statistics{}};
    run_merged_reduction(PartialStatistics<T, K>{tiling, values<T>(x), first}, together, at_once, order);
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
  run_reduction(MergedStatistics{
      merging(moments.size(0), channels), {channels, channels}, values<double>(moments), nullptr, nullptr, statistics});
  return to;
}

/// The largest difference, in units of the expected tensor's largest value.
inline double largest_error(const at::Tensor& ours, const at::Tensor& exact) {
  const at::Tensor wanted = exact.to(at::kDouble);
  return ((ours.to(at::kDouble) - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30)).item<double>();
}

}  // namespace rollcall::device::kernels
