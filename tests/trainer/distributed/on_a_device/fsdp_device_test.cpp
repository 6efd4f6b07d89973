// Sharded training on a device other than the CPU, with shards there and in main memory, is bit identical to the CPU.
// The device is a stand-in for a GPU; see its header for what it can and cannot show.

#include <gtest/gtest.h>
#include <algorithm>
#include <set>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"
#include "trainer/distributed/ddp/sharded_replica.h"
#include "trainer/distributed/process_group/mesh.h"

namespace rollcall::parallel {
namespace {

using fsdp::AfterForward;
using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t width, c10::Device device) {
    weight = register_parameter("weight", torch::randn({width, width}).to(device));
    bias = register_parameter("bias", torch::randn({width}).to(device));
    scale = register_parameter("scale", torch::ones({}).to(device));
    even = register_parameter("even", torch::randn({8, width}).to(device));
  }
  at::Tensor forward(const at::Tensor& input) {
    at_work();
    const at::Tensor further = torch::linear(input, even).sum(-1, /*keepdim=*/true) * 0.01;
    const at::Tensor curved = torch::tanh(torch::linear(input, weight, bias));
    if (curved.requires_grad()) {
      curved.register_hook([this](const at::Tensor& /*gradient*/) { at_work(); });
    }
    return input + curved * scale + further;
  }
  at::Tensor weight, bias, scale;
  at::Tensor even;                        ///< whose rows every number of ranks divides, so that it may travel by itself
  std::function<void()> at_work = [] {};  ///< called where the device is given the first of its forward and backward
};
TORCH_MODULE(Block);

/// Seven channels, which no number of ranks divides, and a head that no block owns.
struct NetworkImpl : torch::nn::Module {
  explicit NetworkImpl(c10::Device of_device) : device(of_device) {
    torch::manual_seed(3);
    for (int i = 0; i < 4; ++i) {
      blocks->push_back(Block(7, device));
    }
    register_module("blocks", blocks);
    head = register_parameter("head", torch::randn({3, 7}).to(device));
  }
  at::Tensor loss(std::int64_t batch, std::uint32_t rank) {
    const at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * batch + rank));
    const at::Tensor inputs = torch::randn({5, 7}, generator).to(device);
    return torch::linear(blocks->forward(inputs), head).square().mean();
  }
  c10::Device device;
  torch::nn::Sequential blocks;
  at::Tensor head;
};
TORCH_MODULE(Network);

struct Outcome {
  std::vector<double> numbers;  ///< losses and norms
  std::vector<at::Tensor> parameters;
};

bool operator==(const Outcome& a, const Outcome& b) {
  return a.numbers == b.numbers && a.parameters.size() == b.parameters.size() &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(),
                    [](const at::Tensor& left, const at::Tensor& right) { return torch::equal(left, right); });
}

std::unique_ptr<ShardedReplica> sharded(Network& network, const process_group::Mesh& mesh,
                                        const fsdp::Options& options) {
  auto replica = ShardedReplica::create(network.ptr(), mesh, options);
  return replica ? std::move(*replica) : throw std::runtime_error(replica.error().message());
}

/// Three Adam steps of two micro-batches each, with gradients limited, and an evaluation after each.
Outcome train(Rank& rank, const process_group::Mesh& mesh, const fsdp::Options& options, c10::Device device) {
  Network network(device);
  const auto replica = sharded(network, mesh, options);
  torch::optim::Adam optimizer(replica->named_parameters().values(), torch::optim::AdamOptions(1e-2));
  Outcome outcome;
  for (std::int64_t step = 0; step < 3; ++step) {
    replica->zero_grad();
    for (const bool last : {false, true}) {
      replica->set_gradient_sync(last);
      at::Tensor loss = replica->forward([&] { return network->loss(2 * step + (last ? 1 : 0), rank.rank); });
      loss.backward();
      outcome.numbers.push_back(loss.item<double>());
    }
    outcome.numbers.push_back(replica->clip_grad_norm(0.1).item<double>());
    optimizer.step();
    const at::Tensor evaluated = replica->evaluate([&] { return network->loss(1000, rank.rank); });
    outcome.numbers.push_back(evaluated.item<double>());
  }
  const c10::Device home = options.cpu_offload ? c10::Device(c10::kCPU) : device;
  for (const auto& entry : replica->named_parameters()) {
    MULTIPROC_CHECK(entry.value().device() == home && entry.value().grad().device() == home);
    const at::Tensor whole = replica->gather(entry.key(), entry.value());
    if (whole.defined()) {
      outcome.parameters.push_back(whole.detach().to(at::kCPU));
    }
  }
  return outcome;
}

process_group::Mesh make_mesh(Rank& rank, const process_group::MeshOptions& degrees) {
  if (rank.world_size == 1) {
    return {};
  }
  const auto store =
      c10::make_intrusive<c10d::FileStore>(rank.folder / ("mesh" + std::to_string(rank.groups_made)), -1);
  auto mesh = process_group::make_mesh(rank.make_group(), store, degrees, {.backend = rank.backend});
  return mesh ? *mesh : throw std::runtime_error(mesh.error().message());
}

std::vector<fsdp::Options> every_option() {
  std::vector<fsdp::Options> all;
  for (const AfterForward after : {AfterForward::Keep, AfterForward::Shard, AfterForward::SmallShard}) {
    for (const bool both : {true, false}) {
      for (const auto type : {std::optional<at::ScalarType>(), std::optional(at::kHalf)}) {
        fsdp::Options options;
        options.after_forward = after;
        options.prefetch = both;
        options.accumulate_whole = both;
        options.alone_from_bytes = both ? 1 : fsdp::Options().alone_from_bytes;
        options.reduce_type = type;
        all.push_back(options);
      }
    }
  }
  return all;
}

void check_equal_to_cpu(Rank& rank, const process_group::MeshOptions& degrees) {
  const process_group::Mesh mesh = make_mesh(rank, degrees);
  for (const process_group::Group& group : std::set{mesh.world, mesh.shard, mesh.replicate, mesh.reshard}) {
    if (group) {
      stand_in::add_backend(*group);
    }
  }
  for (fsdp::Options options : every_option()) {
    const Outcome expected = train(rank, mesh, options, c10::kCPU);
    const std::int64_t before_it = stand_in::reduce_scatters().given;
    MULTIPROC_CHECK(train(rank, mesh, options, stand_in::device()) == expected);
    MULTIPROC_CHECK((stand_in::reduce_scatters().given > before_it) == (mesh.shard && !options.reduce_type));
    options.cpu_offload = true;
    const stand_in::Counts before = stand_in::counts();
    MULTIPROC_CHECK(train(rank, mesh, options, stand_in::device()) == expected);
    MULTIPROC_CHECK(stand_in::counts().late_copies > before.late_copies);
    MULTIPROC_CHECK(stand_in::counts().waits > before.waits);
  }
}

TEST(FsdpOnADevice, IsBitIdenticalToTheCpu) {
  for (const std::uint32_t world_size : {1U, 2U}) {
    const auto ranks = spawn(
        world_size, [](Rank& rank) { check_equal_to_cpu(rank, {.reshard_degree = rank.world_size > 1 ? 2U : 0U}); });
    EXPECT_TRUE(all_succeeded(ranks)) << world_size << " ranks\n" << report(ranks);
  }
}

TEST(FsdpOnADevice, IsBitIdenticalToTheCpuOnFourRanks) {
  for (const std::uint32_t shard_degree : {0U, 2U}) {
    const auto ranks =
        spawn(4, [&](Rank& rank) { check_equal_to_cpu(rank, {.shard_degree = shard_degree, .reshard_degree = 2}); });
    EXPECT_TRUE(all_succeeded(ranks)) << "sharded over " << shard_degree << "\n" << report(ranks);
  }
}

/// Two ranks, and a group of them whose collectives on the device are watched, as in a training.
void on_two_ranks(const std::function<void(Rank&, const process_group::Group&)>& test) {
  const auto ranks = spawn(2, [&](Rank& rank) {
    device::Plugin plugin{};
    plugin.type = stand_in::device().type();
    plugin.backend = "stand-in";
    plugin.add_backend = [](c10d::ProcessGroup& group, const auto&, auto, const auto&) {
      stand_in::add_backend(group);
    };
    const auto store = c10::make_intrusive<c10d::FileStore>(rank.folder / "watched", -1);
    const auto group = process_group::make_process_group(store, rank.rank, 2, {.device = &plugin});
    test(rank, group ? group->process_group : throw std::runtime_error(group.error().message()));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(FsdpOnADevice, ComputationOverlapsWithReductions) {
  on_two_ranks([](Rank& rank, const process_group::Group& group) {
    Network network(stand_in::device());
    fsdp::Options options;
    options.reductions_in_flight = 9;
    const auto replica = sharded(network, {group, group, nullptr, nullptr}, options);
    const at::Tensor input = torch::full({5, 7}, rank.rank + 0.5).to(stand_in::device()).requires_grad_();
    stand_in::ReduceScatters at_the_first_block;
    input.register_hook([&](const at::Tensor& gradient) {
      const at::Tensor computed = gradient + 1;  // behind what the computing stream waits for
      at_the_first_block = stand_in::reduce_scatters();
    });
    replica->forward([&] { return torch::linear(network->blocks->forward(input), network->head).sum(); }).backward();
    MULTIPROC_CHECK(at_the_first_block.given >= 3);
    MULTIPROC_CHECK(at_the_first_block.arrived < at_the_first_block.given);
    const at::Tensor gradient = replica->named_parameters()["head"].grad() + 1;
    MULTIPROC_CHECK(stand_in::reduce_scatters().arrived == stand_in::reduce_scatters().given);
  });
}

/// What all-gathers were given when each block had the device begin, forward, and then each backward.
std::vector<std::int64_t> gathers_at_blocks(const process_group::Group& group, bool prefetch) {
  Network network(stand_in::device());
  std::vector<std::int64_t> gathers;
  for (const std::shared_ptr<torch::nn::Module>& block : network->blocks->children()) {
    block->as<BlockImpl>()->at_work = [&gathers] { gathers.push_back(stand_in::all_gathers_given()); };
  }
  const auto replica =
      sharded(network, {group, group, nullptr, nullptr}, {.after_forward = AfterForward::Shard, .prefetch = prefetch});
  const std::int64_t before = stand_in::all_gathers_given();
  replica->forward([&] { return network->loss(0, 0); }).backward();
  std::ranges::for_each(gathers, [before](std::int64_t& given) { given -= before; });
  return gathers;
}

TEST(FsdpOnADevice, PrefetchIssuesTheNextAllGatherBeforeABlockComputes) {
  on_two_ranks([](Rank& /*rank*/, const process_group::Group& group) {
    const std::vector<std::int64_t> when_needed = gathers_at_blocks(group, false);
    const std::vector<std::int64_t> ahead = gathers_at_blocks(group, true);
    constexpr std::size_t kBlocks = 4;
    MULTIPROC_CHECK(when_needed.size() == 2 * kBlocks && ahead.size() == 2 * kBlocks);
    for (const std::size_t first : {std::size_t{0}, kBlocks}) {  // of the forward, and of the backward
      for (std::size_t i = first; i + 1 < first + kBlocks; ++i) {
        MULTIPROC_CHECK(when_needed[i] < when_needed[i + 1]);
        MULTIPROC_CHECK(ahead[i] == when_needed[i + 1]);
      }
    }
  });
}

TEST(FsdpOnADevice, WatchingACollectiveKeepsNoReferenceToItsTensors) {
  on_two_ranks([](Rank& rank, const process_group::Group& group) {
    const fsdp::Options options;
    fsdp::Communicator communicator({group, group, nullptr, nullptr}, options);
    const at::Tensor whole = torch::zeros({2000}).to(stand_in::device());
    const at::Tensor part = torch::full({1000}, rank.rank + 1.0).to(stand_in::device());
    communicator.all_gather(group, {whole}, {part}).wait();
    MULTIPROC_CHECK(whole.storage().use_count() == 1 && part.storage().use_count() == 1);
    MULTIPROC_CHECK(whole.sum().item<double>() == 3000);
    communicator.reduce_scatter({part}, {whole}).wait();
    MULTIPROC_CHECK(whole.storage().use_count() == 1 && part.storage().use_count() == 1);
    MULTIPROC_CHECK(part.eq(2 * (rank.rank + 1.0)).all().item<bool>());
  });
}

TEST(FsdpOnADevice, GroupsWithoutADeviceBackendAreRejectedBeforeSharding) {
  const auto ranks = spawn(2, [](Rank& rank) {
    const process_group::Mesh mesh = make_mesh(rank, {});
    Network network(stand_in::device());
    const auto divided = fsdp::fully_shard(network.ptr(), mesh, {});
    MULTIPROC_CHECK(!divided.has_value());
    MULTIPROC_CHECK(divided.error().message().find("carries no tensors of") != std::string::npos);
    // A rank that leaves at once would end the connecting of the other.
    MULTIPROC_CHECK(process_group::barrier(mesh.world).has_value());
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(FsdpOnADevice, ParametersOnTwoDevicesAreAnErrorNamingOne) {
  const auto ranks = spawn(1, [](Rank& /*rank*/) {
    Network network(stand_in::device());
    network->blocks->push_back(Block(7, c10::kCPU));
    const auto divided = fsdp::fully_shard(network.ptr(), {}, {});
    MULTIPROC_CHECK(!divided.has_value());
    MULTIPROC_CHECK(divided.error().message().find("blocks.4.weight") != std::string::npos);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::parallel
