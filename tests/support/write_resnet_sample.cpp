// write_resnet_sample FOLDER: saves a ResNet-18 of 10 classes after one SGD step, for tests that load it with
// torchvision.

#include <cstdio>

#include "tests/support/whole_checkpoint.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/model/resnet.h"
#include "trainer/torch.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_resnet_sample FOLDER\n");
    return 64;
  }
  torch::manual_seed(1);
  auto model = rollcall::model::make_model("resnet18", {.num_classes = 10});
  if (!model) {
    std::fprintf(stderr, "%s\n", model.error().message().c_str());
    return rollcall::to_int(model.error().exit_code());
  }
  torch::optim::SGD optimizer((*model)->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  (*model)->forward(torch::randn({2, 3, 64, 64})).sum().backward();
  optimizer.step();
  const rollcall::checkpoint::TrainingState state{
      .model = **model,
      .optimizer = optimizer,
      .parameter_keys_in_optimizer_order =
          rollcall::checkpoint::parameter_keys((*model)->named_parameters(), optimizer),
      .progress = {},
      .rng_per_rank = {},
      .config_json = "{}",
      .argv = {"write_resnet_sample"}};
  if (auto saved = rollcall::checkpoint::save(argv[1], state, {}); !saved) {
    std::fprintf(stderr, "%s\n", saved.error().message().c_str());
    return rollcall::to_int(saved.error().exit_code());
  }
  return 0;
}
