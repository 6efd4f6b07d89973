// Synchronised batch normalisation against one process with the concatenated batches of all ranks.

#include <gtest/gtest.h>
#include <numeric>

#include "tests/trainer/distributed/fsdp_network.h"
#include "trainer/distributed/ddp/make_replica.h"

namespace rollcall::parallel {
namespace {

using testing_support::all_succeeded;
using testing_support::batch_loss;
using testing_support::data_parallel;
using testing_support::make_adam;
using testing_support::make_mesh;
using testing_support::make_network;
using testing_support::Network;
using testing_support::NetworkOptions;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::report;
using testing_support::sharded;
using testing_support::spawn;
using testing_support::whole_parameters;

constexpr std::int64_t kChannels = 5;

struct Case {
  std::vector<std::int64_t> batches;  ///< images of each rank
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  at::ScalarType type = at::kFloat;
  double tolerance = 1e-5;
};

/// What goes through the layer: inputs whose mean is not 0.
struct Inputs {
  at::Tensor images, shortcut, gradient;
};

Inputs inputs_of(const Case& wanted) {
  const std::int64_t images = std::accumulate(wanted.batches.begin(), wanted.batches.end(), std::int64_t{0});
  at::Generator generator = at::detail::createCPUGenerator(3);
  const auto draw = [&](double mean) {
    return (torch::randn({images, kChannels, 4, 3}, generator, at::kFloat) + mean).to(wanted.type);
  };
  return {.images = draw(3), .shortcut = draw(0), .gradient = draw(0.5)};
}

struct Answer {
  at::Tensor output, input_gradient, shortcut_gradient, weight_gradient, bias_gradient;
  at::Tensor running_mean, running_var;
};

enum class Kind { Plain, Relu, AddRelu };

model::BatchNorm make_layer() {
  model::BatchNorm layer(kChannels);
  const torch::NoGradGuard no_grad;
  layer->weight.copy_(torch::linspace(0.5, 1.5, kChannels));
  layer->bias.copy_(torch::linspace(-1, 1, kChannels));
  return layer;
}

/// `first` and `count`: the images that this process has. It computes in the case's type, or in another one.
Answer run_layer(const Case& wanted, Kind kind, std::int64_t first, std::int64_t count,
                 const process_group::Group& group, at::ScalarType type) {
  model::BatchNorm layer = make_layer();
  if (type == at::kDouble) {
    layer->to(at::kDouble);
  }
  synchronise_batch_norms(*layer, group);
  const Inputs all = inputs_of(wanted);
  const auto mine = [&](const at::Tensor& whole) {
    return whole.narrow(0, first, count).to(type).contiguous(wanted.format).detach();
  };
  const at::Tensor x = mine(all.images).requires_grad_();
  const at::Tensor shortcut = mine(all.shortcut).requires_grad_();
  const at::Tensor y = kind == Kind::Plain  ? layer->forward(x)
                       : kind == Kind::Relu ? layer->relu(x)
                                            : layer->add_relu(x, shortcut);
  y.backward(mine(all.gradient));
  return {.output = y.detach(),
          .input_gradient = x.grad(),
          .shortcut_gradient = kind == Kind::AddRelu ? shortcut.grad() : at::Tensor(),
          .weight_gradient = layer->weight.grad(),
          .bias_gradient = layer->bias.grad(),
          .running_mean = layer->running_mean,
          .running_var = layer->running_var};
}

bool close(const at::Tensor& ours, const at::Tensor& expected, double tolerance) {
  return torch::allclose(ours.to(at::kDouble), expected.to(at::kDouble), tolerance, tolerance);
}

at::Tensor summed(const process_group::Group& group, at::Tensor tensor) {
  (void)process_group::all_reduce_sum(group, tensor);
  return tensor;
}

void check_layer(const Rank& rank, const process_group::Group& group, const Case& wanted, Kind kind) {
  const auto here = wanted.batches.begin() + rank.rank;
  const std::int64_t first = std::accumulate(wanted.batches.begin(), here, std::int64_t{0});
  const std::int64_t total = std::accumulate(here, wanted.batches.end(), first);
  // What bfloat16 rounds over the ReLU's edge takes its whole gradient with it: there as LibTorch rounds.
  const at::ScalarType type_of_whole = wanted.type == at::kBFloat16 ? at::kBFloat16 : at::kDouble;
  const Answer whole = run_layer(wanted, kind, 0, total, nullptr, type_of_whole);
  const Answer mine = run_layer(wanted, kind, first, *here, group, wanted.type);
  MULTIPROC_CHECK(mine.output.scalar_type() == wanted.type && mine.input_gradient.scalar_type() == wanted.type);
  const double tolerance = wanted.tolerance;
  MULTIPROC_CHECK(close(mine.output, whole.output.narrow(0, first, *here), tolerance));
  MULTIPROC_CHECK(close(mine.input_gradient, whole.input_gradient.narrow(0, first, *here), tolerance));
  if (kind == Kind::AddRelu) {
    MULTIPROC_CHECK(close(mine.shortcut_gradient, whole.shortcut_gradient.narrow(0, first, *here), tolerance));
  }
  MULTIPROC_CHECK(close(summed(group, mine.weight_gradient.clone()), whole.weight_gradient, tolerance));
  MULTIPROC_CHECK(close(summed(group, mine.bias_gradient.clone()), whole.bias_gradient, tolerance));
  MULTIPROC_CHECK(close(mine.running_mean, whole.running_mean, tolerance));
  MULTIPROC_CHECK(close(mine.running_var, whole.running_var, tolerance));
  for (const at::Tensor& statistic : {mine.running_mean, mine.running_var}) {
    at::Tensor of_rank_0 = statistic.clone();
    (void)process_group::broadcast(group, of_rank_0);
    MULTIPROC_CHECK(torch::equal(of_rank_0, statistic));
  }
}

void check_cases(std::uint32_t world_size, const std::vector<Case>& cases) {
  const std::vector<RankResult> ranks = spawn(world_size, [&](Rank& rank) {
    const process_group::Group group = rank.make_group();
    for (const Case& wanted : cases) {
      for (const Kind kind : {Kind::Plain, Kind::Relu, Kind::AddRelu}) {
        check_layer(rank, group, wanted, kind);
      }
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

TEST(SyncBatchNorm, TwoRanksEqualOneProcessWithBothBatches) {
  check_cases(2, {{.batches = {3, 3}},
                  {.batches = {3, 3}, .format = kChannelsLast},
                  {.batches = {5, 1}, .format = kChannelsLast},
                  {.batches = {2, 2}, .type = at::kDouble, .tolerance = 1e-12}});
}

TEST(SyncBatchNorm, FourRanksWithUnevenAndEmptyBatchesEqualOneProcess) {
  check_cases(4, {{.batches = {2, 2, 2, 2}, .format = kChannelsLast},
                  {.batches = {3, 1, 0, 2}},
                  {.batches = {0, 1, 4, 2}, .format = kChannelsLast}});
}

// Bfloat16 has 8 bits; what is added and cut off is rounded before and after.
TEST(SyncBatchNorm, NormalisesBfloat16WithStatisticsInFloat32) {
  check_cases(2, {{.batches = {2, 3}, .type = at::kBFloat16, .tolerance = 0.03}});
}

class CountedSum final : public model::StatisticsRanks {
 public:
  at::Tensor gather(const at::Tensor& mine) override { return mine.unsqueeze(0); }
  void add_up(at::Tensor& sums) override { sizes.push_back(sums.numel()); }
  std::vector<std::int64_t> sizes;
};

TEST(SyncBatchNorm, SendsOneMessageEachWayAndNoneInEvalMode) {
  const std::vector<RankResult> ranks = spawn(1, [](Rank&) {
    model::BatchNorm layer = make_layer();
    const auto sum = c10::make_intrusive<CountedSum>();
    layer->share_statistics(sum);
    const at::Tensor x = torch::randn({2, kChannels, 3, 3}).requires_grad_();
    layer->relu(x).sum().backward();
    MULTIPROC_CHECK((sum->sizes == std::vector<std::int64_t>{2 * kChannels + 1, 2 * kChannels}));
    layer->eval();
    layer->relu(x).sum().backward();
    MULTIPROC_CHECK(sum->sizes.size() == 2);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(SyncBatchNorm, RejectsASingleValuePerChannel) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    model::BatchNorm layer = make_layer();
    synchronise_batch_norms(*layer, rank.make_group());
    const at::Tensor two = torch::randn({1, kChannels, 1, 1});
    MULTIPROC_CHECK(layer->forward(two).defined());  // two values in all
    std::string message;
    try {
      layer->forward(torch::randn({rank.rank == 0 ? 1 : 0, kChannels, 1, 1}));
    } catch (const c10::Error& error) {
      message = error.what_without_backtrace();
    }
    MULTIPROC_CHECK(message.find("more than one value a channel") != std::string::npos);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// One process's steps on the batches of all `ranks` together; the parameters afterwards.
at::Tensor train_whole(const NetworkOptions& options, std::uint32_t ranks, std::int64_t steps) {
  Network network = make_network(options);
  torch::optim::Adam optimizer(network->parameters(), torch::optim::AdamOptions(1e-2));
  for (std::int64_t step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    std::vector<at::Tensor> images;
    std::vector<at::Tensor> labels;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      testing_support::Batch batch = testing_support::batch_of(network, step, rank);
      images.push_back(batch.images);
      labels.push_back(batch.labels);
    }
    torch::cross_entropy_loss(network->forward(torch::cat(images)), torch::cat(labels)).backward();
    optimizer.step();
  }
  std::vector<at::Tensor> parts;
  for (const at::Tensor& parameter : network->parameters()) {
    parts.push_back(parameter.detach().flatten());
  }
  return torch::cat(parts);
}

void train_ranks(Replica& replica, Network& network, std::uint32_t rank, std::int64_t steps) {
  const auto optimizer = make_adam(replica);
  for (std::int64_t step = 0; step < steps; ++step) {
    replica.zero_grad();
    replica.forward([&] { return batch_loss(network, step, rank); }).backward();
    optimizer->step();
  }
}

void check_training(std::uint32_t world_size, bool shard) {
  const std::vector<RankResult> ranks = spawn(world_size, [&](Rank& rank) {
    constexpr std::int64_t kSteps = 5;
    const NetworkOptions options{.type = at::kDouble};  // float32 would amplify the rounding of another order
    const process_group::Mesh mesh = make_mesh(rank);
    Network network = make_network(options);
    MULTIPROC_CHECK(synchronise_batch_norms(*network, mesh.world) == 3);
    std::unique_ptr<Replica> replica;
    if (shard) {
      replica = sharded(network, mesh);
    } else {
      replica = data_parallel(network, mesh.world);
    }
    train_ranks(*replica, network, rank.rank, kSteps);
    const at::Tensor mine = whole_parameters(*replica);
    if (mine.defined()) {
      MULTIPROC_CHECK(torch::allclose(mine, train_whole(options, rank.world_size, kSteps), 1e-9, 1e-9));
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(SyncBatchNorm, DataParallelTrainingEqualsOneProcessOnTheWholeBatch) {
  check_training(2, false);
  check_training(4, false);
}

TEST(SyncBatchNorm, ShardedTrainingEqualsOneProcessOnTheWholeBatch) {
  check_training(2, true);
  check_training(4, true);
}

}  // namespace
}  // namespace rollcall::parallel
