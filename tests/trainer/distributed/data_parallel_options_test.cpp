#include <gtest/gtest.h>
#include <array>

#include "tests/support/multiproc.h"
#include "trainer/distributed/ddp/data_parallel.h"

namespace rollcall::parallel {
namespace {

using process_group::Group;
using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::report;
using testing_support::spawn;

/// Two branches, of which a forward may leave one out, and a batch norm.
struct BranchesImpl : torch::nn::Module {
  BranchesImpl() {
    torch::manual_seed(3);
    norm = register_module("norm", torch::nn::BatchNorm1d(6));
    left = register_module("left", torch::nn::Linear(6, 4));
    right = register_module("right", torch::nn::Linear(6, 4));
  }
  at::Tensor forward(bool with_right, std::uint32_t data) {
    at::Generator generator = at::detail::createCPUGenerator(data);
    const at::Tensor input = norm(torch::randn({8, 6}, generator, at::kFloat));
    const at::Tensor output = left(input);
    return (with_right ? output + right(input) : output).square().mean();
  }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear left{nullptr}, right{nullptr};
};
TORCH_MODULE(Branches);

std::unique_ptr<DataParallel> make(const Branches& network, const Group& group,
                                   const DataParallelOptions& options = {}) {
  auto replica = DataParallel::create(network.ptr(), group, options);
  return replica ? std::move(*replica) : throw std::runtime_error(replica.error().message());
}

/// Three steps of plain gradient descent; the losses. `right(step)`: whether this rank uses the second branch.
std::vector<double> train(DataParallel& replica, Branches& network, std::uint32_t data,
                          const std::function<bool(int step)>& right) {
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) {
    replica.zero_grad();
    const at::Tensor loss = replica.forward([&] { return network->forward(right(step), data); });
    loss.backward();
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : network->parameters()) {
      if (parameter.grad().defined()) {
        parameter.sub_(parameter.grad(), 0.1);
      }
    }
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(DataParallelOptions, FindUnusedParametersHandlesParametersUsedBySomeRanks) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const Group group = rank.make_group();
    Branches network;
    const auto replica = make(network, group, {.find_unused_parameters = true, .compression = {}});
    // Used by rank 1 alone in the first step, by nobody in the second, by both in the third.
    train(*replica, network, rank.rank, [&](int step) { return step == 2 || (step == 0 && rank.rank == 1); });
    at::Tensor first = network->right->weight.detach().clone();
    MULTIPROC_CHECK(process_group::broadcast(group, first).has_value());
    MULTIPROC_CHECK(torch::equal(first, network->right->weight));
    MULTIPROC_CHECK(network->right->weight.grad().count_nonzero().item<std::int64_t>() > 0);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DataParallelOptions, UnusedParameterIsAnErrorWithoutFindUnusedParameters) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const Group group = rank.make_group();
    Branches network;
    const auto replica = make(network, group);
    bool told = false;
    try {
      train(*replica, network, rank.rank, [](int) { return false; });
    } catch (const c10::Error& error) {
      told = std::string(error.what()).find("find_unused_parameters") != std::string::npos;
    }
    MULTIPROC_CHECK(told);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DataParallelOptions, StaticGraphWithUnusedParametersGivesTheSameResult) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const Group group = rank.make_group();
    for (const bool with_right : {true, false}) {
      Branches network;
      const auto searching = make(network, group, {.find_unused_parameters = true, .compression = {}});
      const std::vector<double> expected = train(*searching, network, rank.rank, [&](int) { return with_right; });
      Branches other;
      const auto fixed = make(other, group, {.static_graph = true, .compression = {}});
      MULTIPROC_CHECK(train(*fixed, other, rank.rank, [&](int) { return with_right; }) == expected);
      MULTIPROC_CHECK(torch::equal(other->left->weight, network->left->weight));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DataParallelOptions, CompressionRoundsGradientsToTheType) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const Group group = rank.make_group();
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      std::array<Branches, 2> alone;  // what each rank has by itself
      for (std::uint32_t of = 0; of < 2; ++of) {
        alone.at(of)->forward(true, 7 + of).backward();
      }
      Branches network;
      const auto replica = make(network, group, {.compression = type});
      replica->zero_grad();
      replica->forward([&] { return network->forward(true, 7 + rank.rank); }).backward();
      for (const auto& entry : network->named_parameters()) {
        const auto half = [&](const Branches& of) {
          return of->named_parameters()[entry.key()].grad().to(type).div(2);
        };
        MULTIPROC_CHECK(torch::equal(entry.value().grad(), (half(alone[0]) + half(alone[1])).to(at::kFloat)));
      }
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DataParallelOptions, BuffersAreBroadcastEveryStepOrOnRequest) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const Group group = rank.make_group();
    std::map<bool, std::uint64_t> collectives;
    for (const bool broadcast : {true, false}) {
      Branches network;
      const auto replica = make(network, group, {.compression = {}, .broadcast_buffers = broadcast});
      const std::uint64_t before = group->getSequenceNumberForGroup();
      train(*replica, network, rank.rank, [](int) { return true; });
      collectives[broadcast] = group->getSequenceNumberForGroup() - before;
      MULTIPROC_CHECK(replica->sync_buffers().has_value());
      at::Tensor mean = network->norm->running_mean.clone();
      MULTIPROC_CHECK(process_group::broadcast(group, mean).has_value());
      MULTIPROC_CHECK(torch::equal(mean, network->norm->running_mean));
    }
    MULTIPROC_CHECK(collectives[false] < collectives[true]);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DataParallelOptions, BucketSizesChangeCollectivesButNotResults) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const Group group = rank.make_group();
    std::map<std::size_t, std::uint64_t> collectives;
    std::map<std::size_t, std::vector<double>> losses;
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20}) {
      Branches network;
      const auto replica =
          make(network, group,
               {.compression = {}, .broadcast_buffers = false, .first_bucket_bytes = bytes, .bucket_bytes = bytes});
      const std::uint64_t before = group->getSequenceNumberForGroup();
      losses[bytes] = train(*replica, network, rank.rank, [](int) { return true; });
      collectives[bytes] = group->getSequenceNumberForGroup() - before;
    }
    MULTIPROC_CHECK(losses[1] == losses[1 << 20]);
    MULTIPROC_CHECK(collectives[1] >= 3 * 6 && collectives[1] > 3 * collectives[1 << 20]);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::parallel
