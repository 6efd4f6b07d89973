#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/host_kernels.h"

namespace rollcall::device::kernels {
namespace {

constexpr double kEps32 = std::numeric_limits<float>::epsilon();

struct Size {
  std::int64_t rows, channels;
};
/// One value, odd numbers of channels, a block's columns exactly and beyond, rows that no block divides.
constexpr Size kSizes[] = {{1, 1},      {2, 8},    {3, 5},      {1000, 3},  {513, 64},
                           {40001, 16}, {777, 67}, {3001, 256}, {300, 2048}};

/// Counts how often each element is some thread's.
template <unsigned K>
struct Visit {
  Tiling tiling;
  int* visits;
  bool backwards;

  void run(const ThreadIndex& place) const {
    const Tile tile = tiling.tile<K>(place);
    if (tile.inside) {
      over_rows<2>(
          backwards ? reversed(tile) : tile, [](int row) { return row; },
          [&](int row, int loaded) {
            for (unsigned k = 0; k < K; ++k) {
              visits[loaded * tiling.channels + tile.channel + k] += row == loaded ? 1 : 100;
            }
          });
    }
  }
};

template <unsigned K>
void expect_one_visit(const Size& size) {
  const at::Tensor visits = at::zeros({size.rows, size.channels}, at::kInt);
  for (const bool backwards : {false, true}) {
    run_tiles(Visit<K>{tiling_of(size.rows, size.channels, K), mutable_data<int>(visits), backwards});
  }
  EXPECT_TRUE(visits.eq(2).all().item<bool>()) << size.rows << " x " << size.channels;
}

TEST(KernelTiling, EveryElementBelongsToOneThread) {
  for (const Size& size : kSizes) {
    expect_one_visit<1>(size);
    if (size.channels % 8 == 0) {
      expect_one_visit<4>(size);
      expect_one_visit<8>(size);
    }
  }
}

/// Means and biased variances in float64.
struct Exact {
  explicit Exact(const at::Tensor& x)
      : mean(x.to(at::kDouble).mean(0)), variance((x.to(at::kDouble) - mean).square().mean(0)) {}
  at::Tensor mean, variance;
};

at::Tensor variance_of(const at::Tensor& moments) {
  const std::int64_t channels = moments.size(0) / 2;
  return moments.narrow(0, channels, channels) / moments[2 * channels];
}

/// |mean - exact| <= 4 eps (|mean| + deviation), |variance - exact| <= 16 eps variance * sqrt(1 + (mean /
/// deviation)^2): what float32 allows Welford's recurrence (Chan, Golub and LeVeque 1983), with room for a few hundred
/// rows a thread.
void expect_moments(const at::Tensor& moments, const at::Tensor& x) {
  const Exact exact(x);
  const std::int64_t channels = x.size(1);
  const at::Tensor deviation = exact.variance.sqrt();
  const at::Tensor mean_error = (moments.narrow(0, 0, channels) - exact.mean).abs();
  EXPECT_TRUE(mean_error.le(4 * kEps32 * (exact.mean.abs() + deviation)).all().item<bool>());
  const at::Tensor variance_error = (variance_of(moments) - exact.variance).abs();
  const at::Tensor bound = 16 * kEps32 * deviation * (deviation.square() + exact.mean.square()).sqrt();
  EXPECT_TRUE(variance_error.le(bound).all().item<bool>()) << (variance_error / bound).max();
  EXPECT_EQ(moments[2 * channels].item<double>(), static_cast<double>(x.size(0)));
}

TEST(KernelStatistics, MatchFloat64WithinFloat32Rounding) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const Size& size : kSizes) {
      SCOPED_TRACE(std::string(at::toString(type)) + " " + std::to_string(size.rows) + " x " +
                   std::to_string(size.channels));
      const at::Tensor x = (at::randn({size.rows, size.channels}) * 3 + at::randn({size.channels})).to(type);
      expect_moments(moments_of(x), x);
    }
  }
}

TEST(KernelStatistics, KeepASmallVarianceFarFromZero) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({20000, 12}) * 0.05 + 1000;
  expect_moments(moments_of(x), x);
  const at::Tensor same = at::full({20000, 12}, 1234.5678);
  EXPECT_EQ(variance_of(moments_of(same)).abs().max().item<double>(), 0);
}

TEST(KernelStatistics, DoNotDependOnTheOrderOfThreads) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({5003, 40});
  EXPECT_TRUE(at::equal(moments_of(x, Order::Forwards), moments_of(x, Order::Backwards)));
}

TEST(KernelStatistics, MergedAtOnceHaveTheSameBitsInAnyOrderOfBlocks) {
  at::manual_seed(8);
  for (const Size& size : kSizes) {
    const at::Tensor x = at::randn({size.rows, size.channels}) + 1;
    const at::Tensor apart = moments_of(x);
    for (const Order order : {Order::Forwards, Order::Backwards}) {
      EXPECT_TRUE(apart.equal(moments_of(x, order, /*at_once=*/true))) << size.rows << " x " << size.channels;
    }
  }
}

TEST(KernelStatistics, MeanAndRunningStatisticsMatchLibTorch) {
  at::manual_seed(4);
  for (const Size& size : {Size{2, 8}, Size{513, 64}, Size{777, 67}}) {
    const at::Tensor x = at::randn({size.rows, size.channels}) * 2 + 1;
    const Merged ours = merged(moments_of(x).unsqueeze(0), 1e-5, 0.3);
    const at::Tensor running_mean = at::zeros({size.channels}, at::kDouble);
    const at::Tensor running_variance = at::ones({size.channels}, at::kDouble);
    const auto [y, mean, inverse_stddev] =
        at::native_batch_norm(x.to(at::kDouble), {}, {}, running_mean, running_variance, true, 0.3, 1e-5);
    EXPECT_LT(largest_error(ours.mean, mean), 1e-6);
    EXPECT_LT(largest_error(ours.inverse_stddev, inverse_stddev), 1e-6);
    EXPECT_LT(largest_error(ours.running_mean, running_mean), 1e-6);
    EXPECT_LT(largest_error(ours.running_variance, running_variance), 1e-6);
    EXPECT_EQ(ours.count.item<double>(), static_cast<double>(size.rows));
  }
}

TEST(KernelStatistics, ASingleValueGivesNanRunningVariance) {
  const at::Tensor x = at::randn({1, 5});
  const Merged ours = merged(moments_of(x).unsqueeze(0));
  EXPECT_TRUE(at::equal(ours.mean, x[0]));
  EXPECT_LT(largest_error(ours.inverse_stddev, at::full({5}, 1 / std::sqrt(1e-5), at::kDouble)), 1e-6);
  EXPECT_TRUE(ours.running_variance.isnan().all().item<bool>());
}

TEST(KernelStatistics, MergedOverRanksEqualThoseOfTheConcatenatedBatch) {
  at::manual_seed(5);
  // As far from each other as a merge without the distance of the means would miss; one rank has nothing.
  std::vector<at::Tensor> batches, moments;
  for (const std::int64_t rows : {700, 0, 31, 1, 1024}) {
    batches.push_back(at::randn({rows, 24}) + static_cast<double>(rows % 7));
    moments.push_back(moments_of(batches.back()));
  }
  const at::Tensor all = at::cat(batches);
  const Merged ours = merged(at::stack(moments), 0);
  const Exact exact(all);
  EXPECT_LT(largest_error(ours.mean, exact.mean), 1e-6);
  EXPECT_LT(largest_error(ours.inverse_stddev, exact.variance.rsqrt()), 1e-6);
  const double unbiased = static_cast<double>(all.size(0)) / static_cast<double>(all.size(0) - 1);
  EXPECT_LT(largest_error(ours.running_variance, 0.9 + 0.1 * unbiased * exact.variance), 1e-6);
  EXPECT_EQ(ours.count.item<double>(), static_cast<double>(all.size(0)));
  // Thousands of ranks, most without a batch, are no other case.
  std::vector<at::Tensor> many(1500, moments_of(at::empty({0, 24})));
  many[3] = moments[0];
  EXPECT_TRUE(at::equal(merged(at::stack(many)).mean, merged(moments[0].unsqueeze(0)).mean));
}

TEST(KernelStatistics, NanAndInfinityStayInTheirChannels) {
  at::manual_seed(6);
  at::Tensor x = at::randn({900, 16});
  x[371][3] = std::numeric_limits<float>::quiet_NaN();
  x[5][9] = std::numeric_limits<float>::infinity();
  const Merged ours = merged(moments_of(x).unsqueeze(0));
  const at::Tensor spoilt = ours.inverse_stddev.isnan();
  EXPECT_TRUE(spoilt[3].item<bool>() && spoilt[9].item<bool>());
  EXPECT_EQ(spoilt.sum().item<std::int64_t>(), 2);
  EXPECT_TRUE(ours.mean[3].isnan().item<bool>());
  EXPECT_FALSE(ours.mean[9].isfinite().item<bool>());
}

}  // namespace
}  // namespace rollcall::device::kernels
