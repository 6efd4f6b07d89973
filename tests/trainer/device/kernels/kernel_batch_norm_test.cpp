#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/host_kernels.h"
#include "trainer/device/cuda/kernels/batch_norm_bodies.h"

namespace rollcall::device::kernels {
namespace {

struct Case {
  std::int64_t rows, channels;
  at::ScalarType type;
  Epilogue epilogue;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const Epilogue epilogue : {Epilogue::None, Epilogue::Relu, Epilogue::AddRelu}) {
      for (const auto& [rows, channels] : {std::pair{2, 8}, {301, 5}, {1030, 64}, {3001, 24}, {77, 1000}}) {
        all.push_back({rows, channels, type, epilogue});
      }
    }
  }
  return all;
}

std::string name(const Case& of) {
  return std::to_string(of.rows) + " x " + std::to_string(of.channels) + " " + at::toString(of.type) + ", epilogue " +
         std::to_string(static_cast<int>(of.epilogue));
}

/// What a layer is given; each [rows, channels] or [channels].
struct Inputs {
  explicit Inputs(const Case& of) {
    at::manual_seed(11);
    const auto draw = [&](double mean) { return (at::randn({of.rows, of.channels}) + mean).to(of.type); };
    x = draw(2);
    added = draw(0);
    gradient = draw(0.2);
    weight = at::rand({of.channels}) + 0.5;
    bias = at::randn({of.channels});
  }
  at::Tensor x, added, gradient, weight, bias;
};

struct Answer {
  at::Tensor y, below, x_gradient, weight_gradient, bias_gradient, sums;
};

Affine affine_of(const Merged& statistics, const Inputs& in) {
  return {values<float>(statistics.mean), values<float>(statistics.inverse_stddev), values<float>(in.weight),
          values<float>(in.bias)};
}

/// How the launchers may be asked to do the same.
struct Manner {
  bool mask = false;
  bool at_once = false;
  bool backwards = false;
  at::Tensor second = {};  ///< another gradient, added to the first one
};

/// The launchers' passes for one type, vector and epilogue. `sums` of all ranks; undefined: those of this batch alone.
template <typename T, unsigned K, Epilogue kEpilogue>
Answer run_as(const Inputs& in, const Merged& statistics, const at::Tensor& sums, const Manner& manner,
              const Tiling& tiling) {
  const Affine affine = affine_of(statistics, in);
  Answer out{at::empty_like(in.x),      in.gradient.clone(),     at::empty_like(in.x),
             at::empty_like(in.weight), at::empty_like(in.bias), at::empty({2 * tiling.channels}, at::kDouble)};
  const at::Tensor bits = at::empty({in.x.numel() / K}, at::kByte);
  auto* const mask = manner.mask && kEpilogue == Epilogue::AddRelu ? mutable_data<std::uint8_t>(bits) : nullptr;
  run_tiles(Forward<T, K, kEpilogue>{tiling, values<T>(in.x), values<T>(in.added), mutable_data<T>(out.y), mask, affine,
                                     manner.backwards});
  const at::Tensor all_parts = at::empty({tiling.row_blocks + kGroups, 2 * tiling.channels}, at::kDouble);
  auto* const parts = mutable_data<double>(all_parts);
  const T* const second = manner.second.defined() ? values<T>(manner.second) : nullptr;
  // In place, as a launcher may be asked for it.
  using Gradients = UpToTwoGradients<T, K>;
  const PartialGradientSums<T, K, kEpilogue, Gradients> body{
      tiling, {values<T>(out.below), second}, values<T>(in.x), mask == nullptr ? values<T>(out.y) : nullptr,
      mask,   mutable_data<T>(out.below),     affine,          parts};
  const MergedGradientSums together{merging(tiling.row_blocks, tiling.channels),
                                    parts,
                                    parts + 2 * tiling.channels * tiling.row_blocks,
                                    affine.inverse_stddev,
                                    mutable_data<double>(out.sums),
                                    mutable_data<float>(out.weight_gradient),
                                    mutable_data<float>(out.bias_gradient)};
  run_merged_reduction(body, together, manner.at_once);
  constexpr Epilogue kAbove = kEpilogue == Epilogue::Relu ? Epilogue::Relu : Epilogue::None;
  run_tiles(InputGradient<T, K, kAbove, OneGradient<T, K>>{tiling,
                                                           {values<T>(out.below)},
                                                           values<T>(in.x),
                                                           mutable_data<T>(out.x_gradient),
                                                           affine,
                                                           values<double>(sums.defined() ? sums : out.sums),
                                                           values<double>(statistics.count),
                                                           manner.backwards});
  return out;
}

Answer run(const Inputs& in, Epilogue epilogue, const Merged& statistics, const at::Tensor& sums = {},
           const Manner& manner = {}) {
  return with_tiling_of(in.x, [&]<typename T, unsigned K>(const Tiling& tiling) {
    return epilogue == Epilogue::None   ? run_as<T, K, Epilogue::None>(in, statistics, sums, manner, tiling)
           : epilogue == Epilogue::Relu ? run_as<T, K, Epilogue::Relu>(in, statistics, sums, manner, tiling)
                                        : run_as<T, K, Epilogue::AddRelu>(in, statistics, sums, manner, tiling);
  });
}

Answer run(const Inputs& in, Epilogue epilogue, const Manner& manner = {}) {
  return run(in, epilogue, merged(moments_of(in.x, Order::Forwards, manner.at_once).unsqueeze(0)), {}, manner);
}

/// LibTorch's operators and its autograd in float64, but for the ReLU's gradient, which goes by our y: a value that
/// rounding moves over its edge would take its whole gradient with it.
Answer exact(const Inputs& in, Epilogue epilogue, const at::Tensor& our_y) {
  const at::Tensor x = in.x.to(at::kDouble).requires_grad_();
  const at::Tensor weight = in.weight.to(at::kDouble).requires_grad_();
  const at::Tensor bias = in.bias.to(at::kDouble).requires_grad_();
  const at::Tensor normalised = std::get<0>(at::native_batch_norm(x, weight, bias, {}, {}, true, 0.1, 1e-5));
  const at::Tensor sum = epilogue == Epilogue::AddRelu ? normalised + in.added.to(at::kDouble) : normalised;
  const at::Tensor below = epilogue == Epilogue::None ? in.gradient : at::threshold_backward(in.gradient, our_y, 0);
  sum.backward(below.to(at::kDouble));
  const at::Tensor y = epilogue == Epilogue::None ? sum : at::relu(sum);
  return {y.detach(), below, x.grad(), weight.grad(), bias.grad(), {}};
}

/// Of the largest value: a few roundings of float32 in y, sums of some thousand values, and one rounding to the type.
double tolerance(at::ScalarType type) { return type == at::kFloat ? 2e-6 : type == at::kHalf ? 6e-4 : 5e-3; }

/// Of x's gradient, in units of what it is the difference of: with two values a channel hardly anything is left of
/// that.
double x_gradient_error(const Inputs& in, const at::Tensor& ours, const at::Tensor& wanted) {
  const at::Tensor variance = at::var(in.x.to(at::kDouble), at::IntArrayRef{0}, /*unbiased=*/false);
  const at::Tensor factor = in.weight / (variance + 1e-5).sqrt();
  const at::Tensor difference = (ours.to(at::kDouble) - wanted).abs() / factor;
  return difference.max().item<double>() / in.gradient.abs().max().item<double>();
}

TEST(KernelBatchNorm, MatchesForwardAndBackwardOfLibTorch) {
  for (const Case& of : cases()) {
    SCOPED_TRACE(name(of));
    const Inputs in(of);
    const Answer ours = run(in, of.epilogue);
    const Answer wanted = exact(in, of.epilogue, ours.y);
    EXPECT_LT(largest_error(ours.y, wanted.y), tolerance(of.type));
    EXPECT_LT(x_gradient_error(in, ours.x_gradient, wanted.x_gradient), tolerance(of.type));
    // Sums stay in float32 whatever the type is.
    EXPECT_LT(largest_error(ours.weight_gradient, wanted.weight_gradient), 5e-6);
    EXPECT_LT(largest_error(ours.bias_gradient, wanted.bias_gradient), 5e-6);
    if (of.epilogue == Epilogue::AddRelu) {
      EXPECT_TRUE(at::equal(ours.below, wanted.below));
    } else {
      EXPECT_TRUE(at::equal(ours.below, in.gradient));
    }
  }
}

void expect_same_bits(const Answer& ours, const Answer& wanted, const Case& of) {
  const auto all = [](const Answer& answer) {
    return std::vector{answer.y, answer.below, answer.x_gradient, answer.weight_gradient, answer.bias_gradient};
  };
  for (std::size_t i = 0; i < all(ours).size(); ++i) {
    EXPECT_TRUE(all(ours)[i].equal(all(wanted)[i])) << name(of) << ", tensor " << i;
  }
}

TEST(KernelBatchNorm, EachPartHasTheSameBitsAsWithoutIt) {
  for (const Case& of : cases()) {
    const Inputs in(of);
    const Answer plain = run(in, of.epilogue);
    for (const Manner& manner : {Manner{.mask = true}, Manner{.at_once = true}, Manner{.backwards = true}}) {
      expect_same_bits(run(in, of.epilogue, manner), plain, of);
    }
  }
}

TEST(KernelBatchNorm, TwoGradientsAreAddedAsLibTorchAddsThem) {
  for (const Case& of : cases()) {
    if (of.epilogue == Epilogue::AddRelu) {
      Inputs in(of);
      const at::Tensor second = at::randn_like(in.x);
      const Answer apart = run(in, of.epilogue, {.second = second});
      in.gradient = in.gradient + second;
      expect_same_bits(apart, run(in, of.epilogue), of);
    }
  }
}

TEST(KernelBatchNorm, ReluPassesTheSameElementsAsLibTorch) {
  for (const Case& of : cases()) {
    const Inputs in(of);
    const Answer ours = run(in, of.epilogue);
    const at::Tensor wanted = exact(in, of.epilogue, ours.y).y;
    const at::Tensor moved = ours.y.gt(0).ne(wanted.gt(0));
    EXPECT_LE(moved.sum().item<std::int64_t>(), 1 + moved.numel() / 10000) << name(of);
  }
}

TEST(KernelBatchNorm, StaysAccurateFarFromZero) {
  const Case of{4000, 8, at::kFloat, Epilogue::None};
  Inputs in(of);
  in.x = at::randn({4000, 8}) * 0.05 + 1000;
  const Answer ours = run(in, of.epilogue);
  const Answer wanted = exact(in, of.epilogue, ours.y);
  // A mean in float32 is off by up to 3e-5 here, 6e-4 deviations; nothing else may be lost.
  EXPECT_LT(largest_error(ours.y, wanted.y), 1e-3);
  EXPECT_LT(largest_error(ours.x_gradient, wanted.x_gradient), 1e-3);
}

TEST(KernelBatchNorm, SharedStatisticsEqualOneLargeBatch) {
  const Case of{600, 24, at::kFloat, Epilogue::AddRelu};
  const Inputs all(of);
  const Answer together = run(all, of.epilogue);
  std::vector<Inputs> ranks;
  std::vector<at::Tensor> moments, y, x_gradients, weight_gradients;
  for (const auto& [begin, rows] : {std::pair{0, 200}, {200, 1}, {201, 0}, {201, 399}}) {
    ranks.push_back(all);
    for (at::Tensor* const part : {&ranks.back().x, &ranks.back().added, &ranks.back().gradient}) {
      *part = part->narrow(0, begin, rows).contiguous();
    }
    moments.push_back(moments_of(ranks.back().x));
  }
  const Merged shared = merged(at::stack(moments));
  at::Tensor sums = at::zeros({48}, at::kDouble);
  for (const Inputs& rank : ranks) {
    sums += run(rank, of.epilogue, shared).sums;
  }
  for (const Inputs& rank : ranks) {
    const Answer own = run(rank, of.epilogue, shared, sums);
    y.push_back(own.y);
    x_gradients.push_back(own.x_gradient);
    weight_gradients.push_back(own.weight_gradient);
  }
  EXPECT_LT(largest_error(at::cat(y), together.y), 2e-6);
  EXPECT_LT(largest_error(at::cat(x_gradients), together.x_gradient), 4e-6);
  EXPECT_LT(largest_error(at::stack(weight_gradients).sum(0), together.weight_gradient), 4e-6);
}

TEST(KernelBatchNorm, OutputsRoundedToZeroPassNoGradient) {
  // float16's least positive value is 6e-8.
  Inputs in({2, 8, at::kHalf, Epilogue::Relu});
  in.x = at::zeros({2, 8}, at::kHalf);
  in.bias = at::full({8}, 1e-8);
  const Answer ours = run(in, Epilogue::Relu);
  EXPECT_EQ(ours.y.abs().max().item<float>(), 0);
  EXPECT_EQ(ours.bias_gradient.abs().max().item<float>(), 0);
}

TEST(KernelBatchNorm, ASinglePixelGivesTheBias) {
  const Case of{1, 7, at::kFloat, Epilogue::None};
  const Inputs in(of);
  const Answer ours = run(in, of.epilogue);
  EXPECT_TRUE(at::equal(ours.y[0], in.bias));
  EXPECT_EQ(ours.x_gradient.abs().max().item<float>(), 0);
  EXPECT_TRUE(at::equal(ours.bias_gradient, in.gradient[0]));
}

TEST(KernelBatchNorm, PropagatesNanAndInfinity) {
  const Case of{200, 8, at::kHalf, Epilogue::AddRelu};
  Inputs in(of);
  in.x[17][2] = std::numeric_limits<float>::quiet_NaN();
  in.x[30][5] = std::numeric_limits<float>::infinity();
  in.added[9][6] = std::numeric_limits<float>::quiet_NaN();
  in.gradient[9][6] = 3;
  in.gradient[40][7] = std::numeric_limits<float>::infinity();
  const Answer ours = run(in, of.epilogue);
  EXPECT_TRUE(ours.y.select(1, 2).isnan().all().item<bool>());
  EXPECT_TRUE(ours.y.select(1, 5).isnan().all().item<bool>());
  EXPECT_TRUE(ours.y[9][6].isnan().item<bool>());
  EXPECT_EQ(ours.y.isnan().sum().item<std::int64_t>(), 2 * 200 + 1);
  // As LibTorch's threshold_backward: what is not a number lets its gradient through.
  EXPECT_EQ(ours.below[9][6].item<float>(), 3);
  const bool open = ours.y[40][7].item<float>() > 0;
  EXPECT_EQ(ours.bias_gradient[7].isfinite().item<bool>(), !open);
  EXPECT_TRUE(ours.x_gradient.select(1, 0).isfinite().all().item<bool>());
}

}  // namespace
}  // namespace rollcall::device::kernels
