#include "trainer/distributed/ddp/exact_replica.h"

#include <gtest/gtest.h>
#include <bit>

#include "tests/support/multiproc.h"

namespace rollcall::parallel {
namespace {

using process_group::Group;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::spawn;

constexpr std::int64_t kVirtual = 11;
constexpr std::int64_t kAccumulation = 2;

/// A layer whose buffer changes what it computes in training, as BatchNorm's do not.
class DriftImpl : public torch::nn::Module {
 public:
  DriftImpl() : seen_(register_buffer("seen", torch::zeros({1}))) {}
  at::Tensor forward(const at::Tensor& input) {
    seen_.add_(1);
    return input * (1 + 0.01 * seen_.clone());
  }

 private:
  at::Tensor seen_;
};
TORCH_MODULE(Drift);

/// With statistics, and with more parameters than any world here divides evenly.
torch::nn::Sequential network_of(std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::nn::Sequential(torch::nn::Linear(7, 11), torch::nn::BatchNorm1d(11), Drift(), torch::nn::ReLU(),
                               torch::nn::Linear(11, 3));
}

at::Tensor loss_of(torch::nn::Sequential& network, std::int64_t step, std::int64_t rank, std::int64_t batch) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * step + 10 * rank + batch));
  return network->forward(torch::randn({6, 7}, generator, torch::kFloat32)).square().mean() / kAccumulation;
}

/// A step's gradients: this process's virtual ranks' batches, in order.
void backward(ExactReplica& replica, torch::nn::Sequential& network, std::int64_t step, const VirtualRanks& ranks) {
  replica.zero_grad();
  for (std::int64_t rank = ranks.first; rank < ranks.first + ranks.mine; ++rank) {
    for (std::int64_t batch = 0; batch < kAccumulation; ++batch) {
      replica.forward([&] { return loss_of(network, step, rank, batch); }).backward();
    }
  }
  replica.finish_gradients();
}

std::vector<at::Tensor> gradients_of(const torch::nn::Sequential& network) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : network->parameters()) {
    gradients.push_back(parameter.grad().detach().clone());
  }
  return gradients;
}

/// What a step is to come to, without a replica: gradients of each virtual rank by themselves, added up along the
/// tree, and the buffers that virtual rank 0 leaves.
struct Expected {
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> buffers;
};

/// Of `size` leaves, a power of two, from `first` on: the left half's sum and the right one's, where there is one.
std::vector<at::Tensor> tree_sum(const std::vector<std::vector<at::Tensor>>& of_ranks, std::size_t first,
                                 std::size_t size) {
  if (size == 1) {
    return copies_of(of_ranks[first]);
  }
  std::vector<at::Tensor> sum = tree_sum(of_ranks, first, size / 2);
  if (first + size / 2 < of_ranks.size()) {
    const std::vector<at::Tensor> right = tree_sum(of_ranks, first + size / 2, size / 2);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i].add_(right[i]);
    }
  }
  return sum;
}

Expected expected_of(torch::nn::Sequential& network, std::int64_t step) {
  const std::vector<at::Tensor> buffers = copies_of(network->buffers());
  Expected expected;
  std::vector<std::vector<at::Tensor>> of_ranks;
  for (std::int64_t rank = 0; rank < kVirtual; ++rank) {
    copy_values(network->buffers(), buffers);
    network->zero_grad();
    for (std::int64_t batch = 0; batch < kAccumulation; ++batch) {
      loss_of(network, step, rank, batch).backward();
    }
    of_ranks.push_back(gradients_of(network));
    if (rank == 0) {
      expected.buffers = copies_of(network->buffers());
    }
  }
  expected.gradients = tree_sum(of_ranks, 0, std::bit_ceil(of_ranks.size()));
  for (at::Tensor& gradient : expected.gradients) {
    gradient.div_(kVirtual);
  }
  return expected;
}

bool equal(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const at::Tensor& a, const at::Tensor& b) { return torch::equal(a, b); });
}

void check_steps(ExactReplica& replica, torch::nn::Sequential& network, const VirtualRanks& ranks) {
  torch::nn::Sequential alone = network_of(3);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Expected expected = expected_of(alone, step);
    backward(replica, network, step, ranks);
    MULTIPROC_CHECK(equal(gradients_of(network), expected.gradients));
    MULTIPROC_CHECK(equal(network->buffers(), expected.buffers));
    const torch::NoGradGuard no_grad;
    for (const torch::nn::Sequential& each : {network, alone}) {
      for (at::Tensor& parameter : each->parameters()) {
        parameter.add_(parameter.grad(), -0.1);
      }
    }
    copy_values(alone->parameters(), network->parameters());
    copy_values(alone->buffers(), expected.buffers);
  }
}

class ExactReplicas : public ::testing::TestWithParam<std::uint32_t> {};

// The last with processes that have no virtual rank.
INSTANTIATE_TEST_SUITE_P(Worlds, ExactReplicas, ::testing::Values(1, 2, 3, 4, 11, 13));

TEST_P(ExactReplicas, SumGradientsAlongOneTreeAndKeepBuffersOfVirtualRankZero) {
  const std::vector<RankResult> results = spawn(GetParam(), [](Rank& rank) {
    const Group group = rank.world_size > 1 ? rank.make_group() : nullptr;
    torch::nn::Sequential network = network_of(3 + rank.rank);  // create() makes them rank 0's
    auto replica = ExactReplica::create(network.ptr(), group, {kVirtual, kAccumulation, true});
    MULTIPROC_CHECK(replica.has_value());
    check_steps(**replica, network, divide_virtual_ranks(kVirtual, rank.rank, rank.world_size));
  });
  EXPECT_TRUE(all_succeeded(results)) << report(results);
}

TEST(ExactReplica, RejectsParametersOfSeveralTypes) {
  torch::nn::Sequential network = network_of(1);
  network[4]->to(torch::kFloat64);
  const auto replica = ExactReplica::create(network.ptr(), nullptr, {2, 1, true});
  ASSERT_FALSE(replica.has_value());
  EXPECT_EQ(replica.error().kind, ErrorKind::Mismatch);
}

TEST(VirtualRanks, AreSplitIntoTheFewestCompleteSubtrees) {
  EXPECT_EQ(blocks_of(0, 8), (std::vector<RankBlock>{{0, 8}}));
  EXPECT_EQ(blocks_of(1, 6), (std::vector<RankBlock>{{1, 1}, {2, 2}, {4, 2}, {6, 1}}));
  EXPECT_EQ(blocks_of(4, 3), (std::vector<RankBlock>{{4, 2}, {6, 1}}));
  EXPECT_EQ(blocks_of(3, 0), std::vector<RankBlock>());
}

TEST(VirtualRanks, AreDividedInOrderAndEvenly) {
  for (std::int64_t all = 1; all < 12; ++all) {
    for (std::int64_t world_size = 1; world_size < 14; ++world_size) {
      std::int64_t next = 0;
      for (std::int64_t rank = 0; rank < world_size; ++rank) {
        const VirtualRanks mine = divide_virtual_ranks(all, rank, world_size);
        EXPECT_EQ(mine.first, next);
        EXPECT_LE(std::abs(mine.mine * world_size - all), world_size);
        next += mine.mine;
      }
      EXPECT_EQ(next, all);
      EXPECT_GT(divide_virtual_ranks(all, 0, world_size).mine, 0);
    }
  }
}

}  // namespace
}  // namespace rollcall::parallel
