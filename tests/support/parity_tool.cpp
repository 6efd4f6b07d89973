// Runs our model, optimizer and data parallelism on what a Python test gives, for comparison with PyTorch.
//
//   parity_tool REQUEST ANSWER [RANK WORLD_SIZE STORE_FILE]
//
// REQUEST is what torch.save wrote of a dict: "model", "num_classes", "channels_last", "train_mode" and
// "zero_init_residual", "seed"; "images" [steps, N, 3, H, W] and "labels" [steps, N]: each rank takes its part of N,
// and the model takes their type; "lr", "momentum", "weight_decay"; optionally "state", name -> tensor, or
// "checkpoint", a file of ours; "sharded" (FSDP instead of DDP, False), "sync_bn" (False), "optimizer" ("sgd") and
// "precision" ("fp32"). ANSWER is a dict for torch.load: "outputs" of the first step's images before training, "losses"
// [steps], and the final state as "state/NAME" (sharded: on rank 0). Without images only the state is written. With
// "overflows", a tensor of bools, only the loss scaler runs, over steps whose gradient is not finite where it is true:
// "scales" and "good_steps" after each.

#include <c10/util/irange.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "runtime/base/text.h"
#include "tests/support/read_checkpoint.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/distributed/ddp/make_replica.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/model/resnet.h"
#include "trainer/model/state.h"
#include "trainer/optim/optimizer.h"
#include "trainer/precision/autocast.h"
#include "trainer/precision/loss_scaler.h"
#include "trainer/torch.h"

namespace {

using namespace rollcall;
using Dictionary = c10::Dict<c10::IValue, c10::IValue>;
using Tensors = c10::Dict<std::string, at::Tensor>;

template <typename T>
T value_of(Result<T> result) {
  return result ? std::move(*result) : throw std::runtime_error(result.error().message());
}

Dictionary read_dictionary(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  return torch::jit::pickle_load(bytes).toGenericDict();
}

void write_tensors(const std::string& path, const Tensors& tensors) {
  const std::vector<char> bytes = torch::jit::pickle_save(tensors);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

struct Place {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  parallel::Peers peers;
};

Place join(const std::vector<std::string>& arguments) {
  if (arguments.size() < 5) {
    return {};
  }
  Place place;
  place.rank = parse_integer<std::uint32_t>(arguments[2]).value();
  place.world_size = parse_integer<std::uint32_t>(arguments[3]).value();
  place.peers.store = c10::make_intrusive<c10d::FileStore>(arguments[4], -1);
  place.peers.world =
      value_of(process_group::make_process_group(place.peers.store, place.rank, place.world_size, {.backend = "gloo"}))
          .process_group;
  return place;
}

/// As Python's Module.to(dtype): counters stay integers, which C++'s would convert too.
void use_type(torch::nn::Module& network, at::ScalarType type) {
  for (const std::vector<at::Tensor>& tensors : {network.parameters(), network.buffers()}) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.is_floating_point()) {
        tensor.set_data(tensor.to(type));
      }
    }
  }
}

/// The model's tensors of a checkpoint, by name. All must be there.
void use_checkpoint(torch::nn::Module& network, const std::string& path) {
  const auto loaded = value_of(checkpoint::format::read_checkpoint(path));
  std::map<std::string, std::span<const std::byte>> bytes;
  for (const auto& tensor : loaded.content.tensors) {
    bytes[tensor.state_dict_key] = tensor.bytes;
  }
  for (auto& entry : model::named_state(network)) {
    const auto found = bytes.at(entry.key());
    entry.value().copy_(at::from_blob(const_cast<std::byte*>(found.data()), entry.value().sizes(),
                                      at::TensorOptions(entry.value().scalar_type())));
  }
}

model::ResNet make_network(const Dictionary& request) {
  torch::manual_seed(static_cast<std::uint64_t>(request.at("seed").toInt()));
  model::ResNet network = value_of(model::make_model(
      request.at("model").toStringRef(), {.num_classes = request.at("num_classes").toInt(),
                                          .zero_init_residual = request.at("zero_init_residual").toBool()}));
  if (request.contains("state")) {
    const torch::NoGradGuard no_grad;
    const Dictionary state = request.at("state").toGenericDict();
    for (auto& entry : model::named_state(*network)) {
      entry.value().copy_(state.at(entry.key()).toTensor());
    }
  }
  if (request.contains("checkpoint")) {
    const torch::NoGradGuard no_grad;
    use_checkpoint(*network, request.at("checkpoint").toStringRef());
  }
  if (request.at("channels_last").toBool()) {
    model::use_channels_last(*network);
  }
  if (request.contains("images")) {
    use_type(*network, request.at("images").toTensor().scalar_type());
  }
  network->train(request.at("train_mode").toBool());
  return network;
}

std::string text_of(const Dictionary& request, const char* option, const char* otherwise) {
  return request.contains(option) ? request.at(option).toStringRef() : otherwise;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Dictionary& request, const parallel::Replica& replica) {
  return value_of(optim::make_optimizer({.name = text_of(request, "optimizer", "sgd"),
                                         .learning_rate = request.at("lr").toDouble(),
                                         .weight_decay = request.at("weight_decay").toDouble(),
                                         .momentum = request.at("momentum").toDouble()},
                                        replica.named_parameters()));
}

bool asks_for(const Dictionary& request, const char* option) {
  return request.contains(option) && request.at(option).toBool();
}

/// This rank's part of the batches: [steps, N, ...] cut along N.
at::Tensor part(const at::Tensor& batches, const Place& place) {
  return batches.chunk(place.world_size, 1).at(place.rank);
}

at::Tensor batch_of(const at::Tensor& images, std::int64_t step, bool channels_last) {
  return channels_last ? images[step].contiguous(at::MemoryFormat::ChannelsLast) : images[step].contiguous();
}

void train(const Dictionary& request, const Place& place, model::ResNet& network, Tensors& answer) {
  const at::Tensor images = part(request.at("images").toTensor(), place);
  const at::Tensor labels = part(request.at("labels").toTensor(), place);
  const bool channels_last = request.at("channels_last").toBool();
  if (asks_for(request, "sync_bn")) {
    parallel::synchronise_batch_norms(*network, place.peers.world);
  }
  parallel::ReplicaOptions options;
  options.sharded = asks_for(request, "sharded");
  const auto replica = value_of(parallel::make_replica(network.ptr(), options, place.peers));
  const auto optimizer = make_optimizer(request, *replica);
  const precision::ComputeType type = precision::compute_type(text_of(request, "precision", "fp32"));
  precision::LossScaler scaler(type == at::kHalf);
  const auto loss_of = [&](std::int64_t step) {
    const precision::Autocast autocast(type);
    return torch::cross_entropy_loss(network->forward(batch_of(images, step, channels_last)), labels[step]);
  };
  const Result<void> warm = replica->warm_up([&] { return loss_of(0); });
  if (!warm) {
    throw std::runtime_error(warm.error().message());
  }
  std::vector<double> losses;
  for (const std::int64_t step : c10::irange(images.size(0))) {
    replica->zero_grad();
    const at::Tensor loss = replica->forward([&] { return loss_of(step); });
    scaler.scale(loss).backward();
    if (scaler.unscale(*optimizer, place.peers.world)) {
      optimizer->step();
    }
    scaler.update();
    losses.push_back(loss.item<double>());
  }
  answer.insert("losses", torch::tensor(losses, torch::kFloat64));
  for (const auto& entry : replica->named_parameters()) {
    const at::Tensor whole = replica->gather(entry.key(), entry.value());
    if (whole.defined()) {
      answer.insert("state/" + entry.key(), whole.detach().contiguous());
    }
  }
}

/// The model's answer to the first images, without a trace in the BatchNorm statistics.
void add_outputs(const Dictionary& request, model::ResNet& network, Tensors& answer) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> saved;
  for (const at::Tensor& buffer : network->buffers()) {
    saved.push_back(buffer.clone());
  }
  const at::Tensor images = request.at("images").toTensor();
  answer.insert("outputs", network->forward(batch_of(images, 0, request.at("channels_last").toBool())));
  for (const std::size_t i : c10::irange(saved.size())) {
    network->buffers()[i].copy_(saved[i]);
  }
}

void run_scaler(const at::Tensor& overflows, Tensors& answer) {
  precision::LossScaler scaler(true);
  at::Tensor parameter = torch::zeros({2}).requires_grad_();
  torch::optim::SGD optimizer({parameter}, torch::optim::SGDOptions(0.1));
  std::vector<double> scales;
  std::vector<std::int64_t> good_steps;
  for (const std::int64_t step : c10::irange(overflows.size(0))) {
    parameter.mutable_grad() = torch::tensor({1.0F, overflows[step].item<bool>() ? INFINITY : 1.0F});
    TORCH_CHECK(scaler.unscale(optimizer, nullptr) != overflows[step].item<bool>());
    scaler.update();
    scales.push_back(scaler.state().scale);
    good_steps.push_back(scaler.state().good_steps);
  }
  answer.insert("scales", torch::tensor(scales, torch::kFloat64));
  answer.insert("good_steps", torch::tensor(good_steps));
}

void run(const std::vector<std::string>& arguments) {
  const Dictionary request = read_dictionary(arguments.at(0));
  if (request.contains("overflows")) {
    Tensors answer;
    run_scaler(request.at("overflows").toTensor(), answer);
    write_tensors(arguments.at(1), answer);
    return;
  }
  const Place place = join(arguments);
  model::ResNet network = make_network(request);
  Tensors answer;
  if (request.contains("images")) {
    add_outputs(request, network, answer);
    train(request, place, network, answer);
  }
  for (const auto& entry : model::named_state(*network)) {
    if (!entry.value().requires_grad() || !request.contains("images")) {  // after training, parameters are gathered
      answer.insert("state/" + entry.key(), entry.value().detach().contiguous());
    }
  }
  write_tensors(arguments.at(1), answer);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "parity_tool: " << error.what() << "\n";
    return 1;
  }
}
