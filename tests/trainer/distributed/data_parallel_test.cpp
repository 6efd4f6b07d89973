#include "trainer/distributed/ddp/data_parallel.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "tests/support/multiproc.h"
#include "trainer/model/resnet.h"
#include "trainer/model/state.h"

namespace rollcall::parallel {
namespace {

using process_group::Group;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::spawn;

/// Convolutions of both kinds, BatchNorm, and a layer wide enough (5 MB) for more than one bucket.
torch::nn::Sequential small_network(std::int64_t classes = 10) {
  return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)), torch::nn::BatchNorm2d(8),
                               torch::nn::ReLU(), torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, 1)),
                               torch::nn::BatchNorm2d(16), torch::nn::Flatten(), torch::nn::Linear(16 * 6 * 6, 2048),
                               torch::nn::ReLU(), torch::nn::Linear(2048, classes));
}

std::unique_ptr<DataParallel> make(const torch::nn::Sequential& network, const Group& group,
                                   const DataParallelOptions& options = {}) {
  auto replica = DataParallel::create(network.ptr(), group, options);
  return replica ? std::move(*replica) : throw std::runtime_error(replica.error().message());
}

/// The batch of a step on a rank; drawn from its own generator so that it does not depend on anything before.
at::Tensor batch_loss(torch::nn::Sequential& network, std::int64_t step, std::uint32_t rank) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * step + rank));
  const at::Tensor images = torch::randn({4, 3, 8, 8}, generator, torch::kFloat32);
  const at::Tensor labels = torch::randint(0, 10, {4}, generator, torch::kInt64);
  return torch::cross_entropy_loss(network->forward(images), labels);
}

void train(DataParallel& replica, torch::nn::Sequential& network, torch::optim::Optimizer& optimizer,
           std::int64_t first, std::int64_t last, std::uint32_t rank) {
  for (std::int64_t step = first; step < last; ++step) {
    replica.zero_grad();
    replica.forward([&] { return batch_loss(network, step, rank); }).backward();
    optimizer.step();
  }
}

/// All parameters and buffers as one row of float64.
at::Tensor flat_state(const torch::nn::Module& module) {
  std::vector<at::Tensor> parts;
  for (const auto& entry : model::named_state(module)) {
    parts.push_back(entry.value().detach().to(torch::kFloat64).flatten());
  }
  return torch::cat(parts);
}

bool equal_on_all_ranks(const Group& group, const at::Tensor& tensor) {
  at::Tensor first = tensor.clone();
  return process_group::broadcast(group, first).has_value() && torch::equal(first, tensor);
}

void load_state(torch::nn::Module& module, const std::vector<at::Tensor>& values) {
  const torch::NoGradGuard no_grad;
  auto state = model::named_state(module);
  for (std::size_t i = 0; i < values.size(); ++i) {
    state[i].value().copy_(values[i]);
  }
}

std::vector<at::Tensor> saved_state(const torch::nn::Module& module) {
  std::vector<at::Tensor> values;
  for (const auto& entry : model::named_state(module)) {
    values.push_back(entry.value().detach().clone());
  }
  return values;
}

TEST(DataParallel, InitialWeightsAreBroadcastFromRankZero) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const Group group = rank.make_group();
    torch::manual_seed(rank.rank);
    torch::nn::Sequential network = small_network();
    network[1]->as<torch::nn::BatchNorm2d>()->running_mean.fill_(static_cast<double>(rank.rank));
    const at::Tensor before = flat_state(*network);
    MULTIPROC_CHECK(!equal_on_all_ranks(group, before) || rank.rank == 0);
    const auto replica = make(network, group);
    MULTIPROC_CHECK(equal_on_all_ranks(group, flat_state(*network)));
    MULTIPROC_CHECK(rank.rank != 0 || torch::equal(before, flat_state(*network)));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DataParallel, RanksWithDifferentDataKeepEqualParameters) {
  const std::vector<RankResult> ranks = spawn(4, [](Rank& rank) {
    const Group group = rank.make_group();
    torch::manual_seed(1);
    torch::nn::Sequential network = small_network();
    const auto replica = make(network, group);
    torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const at::Tensor before = flat_state(*network);
    train(*replica, network, optimizer, 0, 5, rank.rank);
    MULTIPROC_CHECK(replica->sync_buffers().has_value());
    MULTIPROC_CHECK(equal_on_all_ranks(group, flat_state(*network)));
    MULTIPROC_CHECK(!torch::equal(before, flat_state(*network)));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

// Shape, number of dimensions, number of parameters, type and what is trained differ between the ranks in turn.
TEST(DataParallel, DifferingModelsAreTheSameErrorOnEveryRank) {
  const std::vector<std::function<torch::nn::Sequential()>> others = {
      [] { return small_network(11); }, [] { return torch::nn::Sequential(torch::nn::Linear(3, 4)); },
      [] {
        torch::nn::Sequential network = small_network();
        network->push_back(torch::nn::Linear(10, 10));
        return network;
      },
      [] {
        torch::nn::Sequential network = small_network();
        network->to(at::kDouble);
        return network;
      },
      [] {
        torch::nn::Sequential network = small_network();
        network->parameters()[0].set_requires_grad(false);
        return network;
      }};
  for (const auto& other : others) {
    const std::vector<RankResult> ranks = spawn(3, [&](Rank& rank) {
      const Group group = rank.make_group();
      const auto replica = DataParallel::create(rank.rank == 2 ? other().ptr() : small_network().ptr(), group);
      MULTIPROC_CHECK(!replica.has_value());
      MULTIPROC_CHECK(replica.error().kind == ErrorKind::Mismatch);
      throw std::runtime_error(replica.error().message());
    });
    EXPECT_NE(ranks[0].message.find("rank 2 has this where rank 0 has"), std::string::npos) << report(ranks);
    EXPECT_EQ(ranks[0].message, ranks[1].message);
    EXPECT_EQ(ranks[0].message, ranks[2].message);
  }
}

/// No batch norm and no dropout, so that a batch's loss is the mean of its samples'.
torch::nn::Sequential plain_network() {
  torch::manual_seed(13);
  return torch::nn::Sequential(torch::nn::Linear(20, 300), torch::nn::Tanh(), torch::nn::Linear(300, 10));
}

/// Mean loss of samples [first, last) of this rank's batch of twelve.
at::Tensor part_loss(torch::nn::Sequential& network, std::uint32_t rank, std::int64_t first, std::int64_t last) {
  at::Generator generator = at::detail::createCPUGenerator(rank);
  const at::Tensor inputs = torch::randn({12, 20}, generator, torch::kFloat32);
  const at::Tensor labels = torch::randint(0, 10, {12}, generator, torch::kInt64);
  return torch::cross_entropy_loss(network->forward(inputs.slice(0, first, last)), labels.slice(0, first, last));
}

/// Gradients of a step whose twelve samples go through in `parts` micro-batches, and the collectives that it took.
std::pair<std::vector<at::Tensor>, std::uint64_t> accumulate(const Group& group, std::int64_t parts) {
  torch::nn::Sequential network = plain_network();
  const auto replica = make(network, group);
  const std::uint32_t rank = process_group::rank_of(group);
  MULTIPROC_CHECK(replica->warm_up([&] { return part_loss(network, rank, 0, 1); }).has_value());
  replica->zero_grad();
  const std::uint64_t before = group->getSequenceNumberForGroup();
  for (std::int64_t part = 0; part < parts; ++part) {
    replica->set_gradient_sync(part + 1 == parts);
    const std::int64_t size = 12 / parts;
    (replica->forward([&] { return part_loss(network, rank, part * size, (part + 1) * size); }) / parts).backward();
  }
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : network->parameters()) {
    gradients.push_back(parameter.grad().clone());
  }
  return {gradients, group->getSequenceNumberForGroup() - before};
}

TEST(DataParallel, AccumulatedMicroBatchesEqualOneBatchWithOneReduction) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const Group group = rank.make_group();
    const auto [whole, collectives] = accumulate(group, 1);
    MULTIPROC_CHECK(collectives == 1);  // one bucket holds all gradients
    for (const std::int64_t parts : {2, 3, 12}) {
      const auto [sum, as_many] = accumulate(group, parts);
      MULTIPROC_CHECK(as_many == collectives);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        MULTIPROC_CHECK(torch::allclose(sum[i], whole[i], 1.3e-6, 1e-7));
      }
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DataParallel, WarmUpChangesNeitherStateNorGradientsNorRandomNumbers) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const Group group = rank.make_group();
    torch::nn::Sequential network = small_network();
    const auto replica = make(network, group);
    const at::Tensor before = flat_state(*network);
    torch::manual_seed(7);
    const at::Tensor expected = torch::rand({3});
    torch::manual_seed(7);
    const Result<void> warm = replica->warm_up([&] { return network->forward(torch::rand({2, 3, 8, 8})).sum(); });
    MULTIPROC_CHECK(warm.has_value());
    MULTIPROC_CHECK(torch::equal(before, flat_state(*network)));
    MULTIPROC_CHECK(torch::equal(expected, torch::rand({3})));
    for (const at::Tensor& parameter : network->parameters()) {
      MULTIPROC_CHECK(!parameter.grad().defined() || parameter.grad().count_nonzero().item<std::int64_t>() == 0);
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// Steps 0-10 at once, against steps 0-5, then a new replica, optimizer and network from the state, and steps 5-10.
void check_resume_is_bit_exact(Rank& rank) {
  const Group group = rank.make_group();
  const auto warm_up_loss = [&](torch::nn::Sequential& network) { return [&] { return batch_loss(network, 99, 0); }; };
  const torch::optim::SGDOptions options(0.1);  // without momentum: the state is all in the network
  torch::manual_seed(3);
  torch::nn::Sequential whole = small_network();
  auto replica = make(whole, group);
  MULTIPROC_CHECK(replica->warm_up(warm_up_loss(whole)).has_value());
  torch::optim::SGD optimizer(whole->parameters(), options);
  train(*replica, whole, optimizer, 0, 5, rank.rank);
  const std::vector<at::Tensor> middle = saved_state(*whole);
  train(*replica, whole, optimizer, 5, 10, rank.rank);

  torch::nn::Sequential resumed = small_network();
  load_state(*resumed, middle);
  auto new_replica = make(resumed, group);
  MULTIPROC_CHECK(new_replica->warm_up(warm_up_loss(resumed)).has_value());
  torch::optim::SGD new_optimizer(resumed->parameters(), options);
  train(*new_replica, resumed, new_optimizer, 5, 10, rank.rank);
  MULTIPROC_CHECK(replica->sync_buffers().has_value() && new_replica->sync_buffers().has_value());
  MULTIPROC_CHECK(torch::equal(flat_state(*whole), flat_state(*resumed)));
}

/// A replica that is told the order of gradients reduces as one that has found it out, from its first step on.
void check_known_order_is_bit_exact(Rank& rank) {
  const Group group = rank.make_group();
  torch::manual_seed(3);
  torch::nn::Sequential first = small_network();
  const std::vector<at::Tensor> state = saved_state(*first);
  DataParallelOptions options;
  options.first_bucket_bytes = 1;  // a parameter a bucket: what goes together depends on the order
  options.bucket_bytes = 2000;
  auto replica = make(first, group, options);
  MULTIPROC_CHECK(replica->gradient_order().empty());
  MULTIPROC_CHECK(replica->warm_up([&] { return batch_loss(first, 99, 0); }).has_value());
  options.gradient_order = replica->gradient_order();
  MULTIPROC_CHECK(options.gradient_order.size() == first->parameters().size());

  torch::nn::Sequential second = small_network();
  load_state(*second, state);
  auto told = make(second, group, options);
  MULTIPROC_CHECK(told->gradient_order() == options.gradient_order);
  const torch::optim::SGDOptions rate(0.1);
  torch::optim::SGD optimizer(first->parameters(), rate);
  torch::optim::SGD of_told(second->parameters(), rate);
  const std::uint64_t before = group->getSequenceNumberForGroup();
  train(*replica, first, optimizer, 0, 1, rank.rank);
  const std::uint64_t of_first_step = group->getSequenceNumberForGroup() - before;
  train(*told, second, of_told, 0, 1, rank.rank);
  MULTIPROC_CHECK(group->getSequenceNumberForGroup() - before == 2 * of_first_step);  // as many buckets
  MULTIPROC_CHECK(torch::equal(flat_state(*first), flat_state(*second)));
  train(*replica, first, optimizer, 1, 6, rank.rank);
  train(*told, second, of_told, 1, 6, rank.rank);
  MULTIPROC_CHECK(replica->sync_buffers().has_value() && told->sync_buffers().has_value());
  MULTIPROC_CHECK(torch::equal(flat_state(*first), flat_state(*second)));
}

TEST(DataParallel, AKnownGradientOrderMakesWarmUpUnnecessary) {
  const std::vector<RankResult> ranks = spawn(3, check_known_order_is_bit_exact);  // dividing by 3 is not a product
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DataParallel, AResumedRunIsBitIdenticalToAnUninterruptedOne) {
  const std::vector<RankResult> ranks = spawn(4, check_resume_is_bit_exact);
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// Turns LibTorch's warnings into failures of the rank.
class NoWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { texts += warning.msg() + "\n"; }
  std::string texts;
};

/// Two steps of ResNet-50, whose 1x1 convolutions are what the Reducer warns about where strides disagree.
void train_without_warnings(Rank& rank, bool channels_last) {
  NoWarnings handler;
  c10::WarningUtils::set_warning_handler(&handler);
  const Group group = rank.make_group();
  model::ResNet network = *model::make_model("resnet50", {.num_classes = 10});
  at::Tensor images = torch::randn({2, 3, 32, 32});
  if (channels_last) {
    model::use_channels_last(*network);
    images = images.contiguous(at::MemoryFormat::ChannelsLast);
  }
  auto replica = DataParallel::create(network.ptr(), group);
  MULTIPROC_CHECK(replica.has_value());
  for (int step = 0; step < 2; ++step) {
    (*replica)->zero_grad();
    (*replica)->forward([&] { return network->forward(images).sum(); }).backward();
  }
  for (const auto& parameter : network->named_parameters()) {
    MULTIPROC_CHECK(parameter.value().grad().strides() == parameter.value().strides());
  }
  if (!handler.texts.empty()) {
    throw std::runtime_error(handler.texts);
  }
}

TEST(DataParallel, GradientsMatchBucketStridesInBothMemoryFormats) {
  for (const bool channels_last : {true, false}) {
    const auto ranks = spawn(2, [&](Rank& rank) { train_without_warnings(rank, channels_last); });
    EXPECT_TRUE(all_succeeded(ranks)) << "channels_last " << channels_last << "\n" << report(ranks);
  }
}

TEST(DataParallel, TrainsWithASingleRank) {
  const std::vector<RankResult> ranks = spawn(1, [](Rank&) {
    torch::manual_seed(1);
    torch::nn::Sequential network = small_network();
    const auto replica = make(network, nullptr);
    torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.05));
    MULTIPROC_CHECK(replica->warm_up([] { return at::Tensor(); }).has_value());
    const double before = batch_loss(network, 0, 0).item<double>();
    for (int i = 0; i < 10; ++i) {
      train(*replica, network, optimizer, 0, 1, 0);
    }
    MULTIPROC_CHECK(batch_loss(network, 0, 0).item<double>() < before);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DataParallel, ARankKilledDuringTrainingIsAnExceptionOnTheOthers) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const Group group = rank.make_group();
    torch::nn::Sequential network = small_network();
    const auto replica = make(network, group);
    torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.1));
    for (std::int64_t step = 0; step < 1000; ++step) {
      if (rank.rank == 2 && step == 3) {
        raise(SIGKILL);
      }
      const Result<void> trained = process_group::guard_collective(
          group, [&] { train(*replica, network, optimizer, step, step + 1, rank.rank); });
      if (!trained) {
        MULTIPROC_CHECK(step == 3 && trained.error().exit_code() == ExitCode::Unavailable);
        return;
      }
    }
    throw std::runtime_error("trained on without rank 2");
  });
  EXPECT_TRUE(ranks[0].succeeded() && ranks[1].succeeded()) << report(ranks);
  EXPECT_EQ(ranks[2].signal, SIGKILL);
}

}  // namespace
}  // namespace rollcall::parallel
