// Checkpoints of a training on a device: the number of host synchronisations is independent of the number of tensors.

#include "tests/support/whole_checkpoint.h"
#include "trainer/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"
#include "tests/support/temporary_folder.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/device/device.h"

namespace rollcall::checkpoint {
namespace {

using testing_support::all_succeeded;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

/// Layers, a batch norm and an optimizer with a momentum, on the device.
struct Training {
  explicit Training(int layers, int seed) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    for (int i = 0; i < layers; ++i) {
      net->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3).padding(1)));
      net->push_back(torch::nn::BatchNorm2d(4));
    }
    for (at::Tensor& parameter : net->parameters()) {
      if (parameter.dim() == 4) {  // as the trainer keeps them: not in the order of the file
        parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
      }
    }
    device::Plugin plugin{};
    plugin.type = stand_in::device().type();
    device::Device(plugin, 0, {}).place(*net);
    optimizer = std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  }
  void step() {
    optimizer->zero_grad();
    net->forward(torch::ones({2, 4, 5, 5}).to(stand_in::device())).square().mean().backward();
    optimizer->step();
    progress.global_step += 1;
  }
  TrainingState state() {
    return {.model = *net,
            .optimizer = *optimizer,
            .parameter_keys_in_optimizer_order = parameter_keys(net->named_parameters(), *optimizer),
            .progress = progress,
            .rng_per_rank = {cpu_rng_state()},
            .config_json = "{}",
            .argv = {"rollcall-train"}};
  }
  /// All values, on the host.
  [[nodiscard]] std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& tensor : net->parameters()) {
      all.push_back(tensor.detach().to(at::kCPU));
      const auto& state = *optimizer->state().at(tensor.unsafeGetTensorImpl());
      all.push_back(static_cast<const torch::optim::SGDParamState&>(state).momentum_buffer().to(at::kCPU));
    }
    for (const at::Tensor& tensor : net->buffers()) {
      all.push_back(tensor.to(at::kCPU));
    }
    return all;
  }

  torch::nn::Sequential net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  Progress progress;
};

bool are_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

/// Of the host, for its device.
template <typename Work>
std::int64_t waits_in(const Work& work) {
  const auto waits = [] { return stand_in::counts().host_waits + stand_in::counts().host_waits_for_event; };
  const std::int64_t before = waits();
  work();
  return waits() - before;
}

/// In a process of its own: a device starts threads, and other tests fork.
void on_a_device(const std::function<void()>& test) {
  const auto ranks = spawn(1, [&](testing_support::Rank& /*rank*/) { test(); });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DeviceCheckpoint, HostSynchronisesOncePerSaveAndOncePerLoad) {
  for (const int layers : {1, 20}) {
    on_a_device([layers] {
      const test::TemporaryFolder folder;
      Training saved(layers, 1);
      saved.step();
      const std::vector<at::Tensor> expected = saved.values();
      const std::int64_t in_save =
          waits_in([&] { MULTIPROC_CHECK(save(folder.path(), saved.state(), {}).has_value()); });
      MULTIPROC_CHECK(in_save == 1);
      Training loaded(layers, 2);
      TrainingState state = loaded.state();
      const std::int64_t in_load = waits_in([&] { MULTIPROC_CHECK(load("auto", folder.path(), state).has_value()); });
      MULTIPROC_CHECK(in_load == 1);
      MULTIPROC_CHECK(are_equal(loaded.values(), expected));
    });
  }
}

}  // namespace
}  // namespace rollcall::checkpoint
