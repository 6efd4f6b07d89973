// CPU time of a step of each optimizer, and of an update of the weights' average (--ema), on ResNet-50's parameters
// with random gradients; optimizer_steps.py does the same in Python. Prints one JSON line: milliseconds, the median.
//   optimizer_steps [STEPS]

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "trainer/model/resnet.h"
#include "trainer/model/state.h"
#include "trainer/optim/optimizer_kind.h"
#include "trainer/optim/weight_average.h"
#include "trainer/torch.h"
#include "trainer/train/process.h"

namespace rollcall {
namespace {

double milliseconds_of(const std::function<void()>& work, int steps) {
  std::vector<double> taken;
  for (int i = 0; i < steps; ++i) {
    const std::clock_t began = std::clock();
    work();
    taken.push_back(1e3 * static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC);
  }
  std::nth_element(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2), taken.end());
  return taken[taken.size() / 2];
}

int run(int steps) {
  train::prepare_process(1);
  torch::manual_seed(0);
  model::ResNet model = *model::make_model("resnet50");
  model::use_channels_last(*model);
  for (at::Tensor& parameter : model->parameters()) {
    parameter.mutable_grad() = torch::randn_like(parameter);
  }
  std::string line;
  for (const optim::NamedKind& named : optim::kOptimizers) {
    const auto optimizer = *optim::make_optimizer(
        {.name = std::string(named.name), .learning_rate = 1e-4, .weight_decay = 5e-5}, model->named_parameters());
    line +=
        "\"" + std::string(named.name) + "\": " + std::to_string(milliseconds_of([&] { optimizer->step(); }, steps));
    line += ", ";
  }
  optim::WeightAverage average(model->named_parameters(), model->named_buffers());
  line += "\"ema\": " + std::to_string(milliseconds_of([&] { average.update(0.999); }, steps));
  std::printf("{%s}\n", line.c_str());
  return 0;
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) { return rollcall::run(argc > 1 ? std::stoi(argv[1]) : 15); }
