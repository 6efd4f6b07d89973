#pragma once

#include <cstdint>
#include <vector>

#include "trainer/device/cuda/kernels/statistics_bodies.h"
#include "trainer/torch.h"

// The bodies of the CUDA kernels on a CPU: every thread of every block, one after the other, with the kernels' own
// blocks, lanes and order of merging.
namespace rollcall::device::kernels {

/// In which order the threads of a block come: between two barriers it must not matter.
enum class Order { Forwards, Backwards };

/// Calls use(thread) for the threads of a block.
template <typename Use>
void over_threads(Order order, const Use& use) {
  for (int i = 0; i < kThreads; ++i) {
    use(order == Order::Forwards ? i : kThreads - 1 - i);
  }
}

/// for_each_thread of launch.h.
template <typename Body>
void run_threads(const Body& body, int blocks_x, int blocks_y = 1, Order order = Order::Forwards) {
  for (int y = 0; y < blocks_y; ++y) {
    for (int x = 0; x < blocks_x; ++x) {
      over_threads(order, [&](int thread) { body.run(Place{x, y, thread}); });
    }
  }
}

template <typename Body>
void run_tiles(const Body& body) {
  run_threads(body, body.tiling.channel_blocks, body.tiling.row_blocks);
}

/// reduce_blocks of launch.h.
template <typename Body>
void run_reduction(const Body& body, Order order = Order::Forwards) {
  const Tiling& tiling = body.tiling;
  std::vector<typename Body::State> shared(kThreads);
  for (int y = 0; y < tiling.row_blocks; ++y) {
    for (int x = 0; x < tiling.channel_blocks; ++x) {
      over_threads(order, [&](int thread) { shared[static_cast<std::size_t>(thread)] = body.begin({x, y, thread}); });
      for (int half = tiling.lanes / 2; half > 0; half /= 2) {
        over_threads(order, [&](int thread) { merge_lanes(tiling, thread, half, shared.data()); });
      }
      for (int thread = 0; thread < tiling.columns; ++thread) {
        body.end({x, y, thread}, shared[static_cast<std::size_t>(thread)]);
      }
    }
  }
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
  at::Tensor mean, inverse_deviation, running_mean, running_variance, count;
};

/// Of `moments` [ranks, 2 channels + 1].
inline Merged merged(const at::Tensor& moments, double eps = 1e-5, double momentum = 0.1) {
  const std::int64_t channels = moments.size(1) / 2;
  const Merged to{at::empty({channels}), at::empty({channels}), at::zeros({channels}), at::ones({channels}),
                  at::empty({1}, at::kDouble)};
  const Statistics statistics{mutable_data<float>(to.mean),
                              mutable_data<float>(to.inverse_deviation),
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
