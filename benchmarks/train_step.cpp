// The training step of ResNet-50, or of a TorchScript file of 1000 classes (--script=FILE), on one fixed batch, as
// peer_train_step.py does it in Python: forward, backward, SGD; data parallel where RANK and WORLD_SIZE are set. Prints
// one JSON line (rank 0).
//   train_step --batch-size=16 --image-size=224 --threads=1 --steps=5

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/this_process.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"
#include "trainer/distributed/ddp/data_parallel.h"
#include "trainer/model/resnet.h"
#include "trainer/model/script.h"
#include "trainer/model/state.h"
#include "trainer/optim/optimizer.h"
#include "trainer/torch.h"
#include "trainer/train/job_context.h"
#include "trainer/train/process.h"

namespace rollcall {
namespace {

std::map<std::string, int> parse(int argc, char** argv, std::string& script) {
  std::map<std::string, int> options{
      {"batch-size", 16}, {"image-size", 224}, {"threads", 1}, {"steps", 5}, {"warmup", 2}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    if (argument.starts_with("--script=")) {
      script = argument.substr(equals + 1);
      continue;
    }
    options[argument.substr(2, equals - 2)] = std::stoi(argument.substr(equals + 1));
  }
  return options;
}

Result<train::JobContext> join(train::FailureReport& report) {
  const Environment environment = Environment::of_this_process();
  const settings::Settings launch(settings::launch_table());
  const Result<step::ResolvedStep> step = step::resolve_this_step(environment, launch, nullptr);
  if (!step) {
    return step.error();
  }
  metrics::StartupTrace trace(metrics::now());
  return train::join_world(*step, resolve::apply(step->patch, environment), launch, {}, nullptr, report, trace);
}

double seconds_of(const std::function<void()>& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

int run(std::map<std::string, int> options, const std::string& script) {
  train::FailureReport report(0, 0, this_host_name());
  Result<train::JobContext> context = join(report);
  if (!context) {
    return report.report_own(context.error());
  }
  train::prepare_process(options["threads"]);
  torch::manual_seed(0);
  const int size = options["image-size"];
  const model::Model model =
      script.empty() ? model::make_model("resnet50")->ptr() : *model::load_script(script, {.image_sizes = {size}});
  model::use_channels_last(*model);
  const at::Tensor images =
      torch::randn({options["batch-size"], 3, size, size}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor labels = torch::randint(0, 1000, {options["batch-size"]}, at::kLong);
  optim::OptimizerOptions sgd;
  sgd.name = "sgd";
  sgd.learning_rate = 0.1;
  sgd.weight_decay = 5e-5;
  auto optimizer = *optim::make_optimizer(sgd, model->named_parameters());
  auto replica = *parallel::DataParallel::create(model, context->process_group);
  std::vector<double> seconds;
  for (int i = 0; i < options["warmup"] + options["steps"]; ++i) {
    const double taken = seconds_of([&] {
      replica->zero_grad();
      replica->forward([&] { return torch::nn::functional::cross_entropy(model->forward(images), labels); }).backward();
      optimizer->step();
    });
    if (i >= options["warmup"]) {
      seconds.push_back(taken);
    }
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  if (context->rank == 0) {
    std::printf("{\"images_per_s\": %.3f, \"world_size\": %u}\n",
                static_cast<double>(context->world_size) * options["batch-size"] / seconds[seconds.size() / 2],
                context->world_size);
  }
  return 0;
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  std::string script;
  const auto options = rollcall::parse(argc, argv, script);
  return rollcall::run(options, script);
}
