#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <vector>

#include "tests/support/multiproc.h"
#include "trainer/distributed/ddp/data_parallel.h"
#include "trainer/distributed/ddp/sharded_replica.h"
#include "trainer/distributed/process_group/mesh.h"
#include "trainer/model/batch_norm.h"
#include "trainer/torch.h"

/// A small network with the difficult cases of sharding, and its training by any Replica.
namespace rollcall::testing_support {

/// Channels that no number of ranks divides and others that 2, 4 and 8 divide, a 1x1 convolution, a parameter of one
/// element and one without dimensions.
struct OddBlockImpl : torch::nn::Module {
  OddBlockImpl(std::int64_t channels, bool batch_norm) {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels + 1, 3).padding(1)));
    mix = register_module("mix", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels + 1, channels, 1).bias(false)));
    if (batch_norm) {
      norm = register_module("norm", model::BatchNorm(channels));
    }
    scale = register_parameter("scale", torch::ones({}));
    shift = register_parameter("shift", torch::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor branch = mix(torch::tanh(conv(input)));
    if (norm) {
      branch = norm(branch);
    }
    return input + branch * scale + shift;
  }
  torch::nn::Conv2d conv{nullptr}, mix{nullptr};
  model::BatchNorm norm{nullptr};
  at::Tensor scale, shift;
};
TORCH_MODULE(OddBlock);

struct NetworkOptions {
  bool batch_norm = true;
  at::ScalarType type = at::kFloat;
  std::int64_t blocks = 3;
};

/// Stem and head outside of the blocks, as in a ResNet.
struct NetworkImpl : torch::nn::Module {
  explicit NetworkImpl(const NetworkOptions& options = {}) {
    stem = register_module("stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 7, 3).padding(1)));
    for (std::int64_t i = 0; i < options.blocks; ++i) {
      blocks->push_back(OddBlock(7, options.batch_norm));
    }
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(7 * 6 * 6, 10));
    to(options.type);
  }
  at::Tensor forward(const at::Tensor& images) { return head(blocks->forward(stem(images)).flatten(1)); }

  torch::nn::Conv2d stem{nullptr};
  torch::nn::Sequential blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Network);

/// The same weights wherever it is called.
inline Network make_network(const NetworkOptions& options = {}) {
  torch::manual_seed(11);
  return Network(options);
}

struct Batch {
  at::Tensor images, labels;
};

/// A batch of the network's type, drawn from its own generator: the same one for equal `step` and `data`.
inline Batch batch_of(const Network& network, std::int64_t step, std::uint32_t data) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * step + data));
  const at::Tensor images = torch::randn({4, 3, 6, 6}, generator, at::kDouble);
  const at::Tensor labels = torch::randint(0, 10, {4}, generator, torch::kInt64);
  return {images.to(network->stem->weight.scalar_type()), labels};
}

inline at::Tensor batch_loss(Network& network, std::int64_t step, std::uint32_t data) {
  const Batch batch = batch_of(network, step, data);
  return torch::cross_entropy_loss(network->forward(batch.images).to(network->head->weight.scalar_type()),
                                   batch.labels);
}

inline std::unique_ptr<torch::optim::Adam> make_adam(const parallel::Replica& replica) {
  return std::make_unique<torch::optim::Adam>(replica.named_parameters().values(), torch::optim::AdamOptions(1e-2));
}

/// One step on the first batch of `data`.
inline void train_step(parallel::Replica& replica, Network& network, torch::optim::Optimizer& optimizer,
                       std::uint32_t data) {
  replica.zero_grad();
  replica.forward([&] { return batch_loss(network, 0, data); }).backward();
  optimizer.step();
}

/// Adam steps at a learning rate of 1e-2, ten as in PyTorch's own FSDP tests; the losses. `data` chooses the batches.
inline std::vector<double> train(parallel::Replica& replica, Network& network, std::uint32_t data, double max_norm = 0,
                                 std::int64_t steps = 10) {
  const auto optimizer = make_adam(replica);
  std::vector<double> losses;
  for (std::int64_t step = 0; step < steps; ++step) {
    replica.zero_grad();
    const at::Tensor loss = replica.forward([&] { return batch_loss(network, step, data); });
    loss.backward();
    if (max_norm > 0) {
      replica.clip_grad_norm(max_norm);
    }
    optimizer->step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

inline std::unique_ptr<parallel::DataParallel> data_parallel(Network& network, const process_group::Group& group) {
  auto replica = parallel::DataParallel::create(network.ptr(), group);
  return replica ? std::move(*replica) : throw std::runtime_error(replica.error().message());
}

inline process_group::Mesh make_mesh(Rank& rank, const process_group::MeshOptions& degrees = {}) {
  const process_group::Group world = rank.world_size > 1 ? rank.make_group() : nullptr;
  const std::string path = rank.folder / ("mesh" + std::to_string(rank.groups_made));
  const auto store = c10::make_intrusive<c10d::FileStore>(path, -1);
  auto mesh = process_group::make_mesh(world, store, degrees, {.backend = rank.backend});
  return mesh ? *mesh : throw std::runtime_error(mesh.error().message());
}

inline std::unique_ptr<parallel::ShardedReplica> sharded(Network& network, const process_group::Mesh& mesh,
                                                         const parallel::fsdp::Options& options = {
                                                             .alone_from_bytes = 1}) {
  auto replica = parallel::ShardedReplica::create(network.ptr(), mesh, options);
  return replica ? std::move(*replica) : throw std::runtime_error(replica.error().message());
}

/// All parameters, whole, as one row of float64; on rank 0, undefined elsewhere.
inline at::Tensor whole_parameters(const parallel::Replica& replica) {
  std::vector<at::Tensor> parts;
  for (const auto& entry : replica.named_parameters()) {
    const at::Tensor whole = replica.gather(entry.key(), entry.value());
    if (whole.defined()) {
      parts.push_back(whole.detach().to(at::kDouble).flatten());
    }
  }
  return parts.empty() ? at::Tensor() : torch::cat(parts);
}

/// Losses of a single process on the batches of `data`.
inline std::vector<double> train_alone(const NetworkOptions& options, std::uint32_t data, double max_norm = 0) {
  Network network = make_network(options);
  return train(*data_parallel(network, nullptr), network, data, max_norm);
}

}  // namespace rollcall::testing_support
