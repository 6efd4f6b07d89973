// A training step of ranks that replicate (--fsdp=0) or divide (--fsdp=1) a model, or that train it side by side and
// exchange nothing (--fsdp=0 --exchange=0): ResNet-50 on one fixed batch, or with --layers=N a stack of wide linear
// layers, nearly all of whose memory is parameters, gradients and Adam's moments. Prints one JSON line (rank 0).
//   parallel_step --fsdp=1 --batch-size=16 --steps=5
//   parallel_step --fsdp=1 --ucx=1 --batch-size=2
//   parallel_step --fsdp=1 --layers=16 --width=2048 --batch-size=4

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <vector>

#include "benchmarks/ranks.h"
#include "runtime/base/this_process.h"
#include "trainer/distributed/ddp/make_replica.h"
#include "trainer/distributed/ddp/sharded_replica.h"
#include "trainer/model/resnet.h"
#include "trainer/model/state.h"
#include "trainer/optim/optimizer.h"
#include "trainer/torch.h"

namespace rollcall {
namespace {

using benchmarks::Options;

/// A module and the loss of one fixed batch of this rank.
struct Workload {
  std::shared_ptr<torch::nn::Module> module;
  parallel::Replica::Loss loss;
  optim::OptimizerOptions optimizer;
};

Workload resnet(Options& options) {
  model::ResNet network = *model::make_model("resnet50");
  model::use_channels_last(*network);
  const int size = options["image-size"];
  const at::Tensor images =
      torch::randn({options["batch-size"], 3, size, size}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor labels = torch::randint(0, 1000, {options["batch-size"]}, at::kLong);
  Workload work{
      network.ptr(), [=]() mutable { return torch::cross_entropy_loss(network->forward(images), labels); }, {}};
  work.optimizer.name = "sgd";
  work.optimizer.learning_rate = 0.1;
  work.optimizer.weight_decay = 5e-5;
  return work;
}

Workload linear_layers(Options& options) {
  torch::nn::Sequential network;
  for (int i = 0; i < options["layers"]; ++i) {
    network->push_back(torch::nn::Linear(options["width"], options["width"]));
  }
  const at::Tensor input = torch::randn({options["batch-size"], options["width"]});
  return {network.ptr(), [=]() mutable { return network->forward(input).square().mean(); }, {}};
}

/// The most memory that this process ever had resident, in MB (1e6 bytes).
double peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") {
      double kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024 / 1e6;
    }
  }
  return 0;
}

double largest_over_ranks(const train::JobContext& context, double mine) {
  if (!context.process_group) {
    return mine;
  }
  std::vector<at::Tensor> tensors{torch::tensor({mine}, at::kDouble)};
  context.process_group->allreduce(tensors, {.reduceOp = c10d::ReduceOp::MAX})->wait();
  return tensors[0].item<double>();
}

/// Seconds of computing by all threads of this process.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double median(std::vector<double> numbers) {
  std::nth_element(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2), numbers.end());
  return numbers[numbers.size() / 2];
}

/// Seconds that this rank has waited for collectives of parameters and gradients; 0 for a replicated model.
double waited(parallel::Replica& replica) {
  auto* const sharded = dynamic_cast<parallel::ShardedReplica*>(&replica);
  return sharded == nullptr ? 0 : sharded->sharded().counters().waited_seconds;
}

int run(Options options) {
  train::FailureReport report(0, 0, this_host_name());
  Result<train::JobContext> context =
      benchmarks::join(report, options["threads"], options["ucx"] != 0 ? "ucx" : "gloo");
  if (!context) {
    return report.report_own(context.error());
  }
  const double before = peak_resident();
  torch::manual_seed(0);
  Workload work = options["layers"] > 0 ? linear_layers(options) : resnet(options);
  parallel::ReplicaOptions parallel;
  parallel.sharded = options["fsdp"] != 0;
  parallel.sharding.prefetch = options["prefetch"] != 0;
  parallel.sharding.alone_from_bytes = std::int64_t{options["alone-from-kib"]} << 10;
  if (options["keep"] != 0) {
    parallel.sharding.after_forward = parallel::fsdp::AfterForward::Keep;
  }
  const parallel::Peers peers{options["exchange"] != 0 ? context->process_group : nullptr, context->store};
  auto replica = *parallel::make_replica(work.module, parallel, peers);
  auto optimizer = *optim::make_optimizer(work.optimizer, replica->named_parameters());
  std::vector<double> seconds;
  std::vector<double> waits;
  double cpu_before = 0;
  for (int i = 0; i < options["warmup"] + options["steps"]; ++i) {
    const double waited_before = waited(*replica);
    cpu_before = i == options["warmup"] ? cpu_seconds() : cpu_before;
    const double taken = benchmarks::seconds_of([&] {
      replica->zero_grad();
      replica->forward(work.loss).backward();
      optimizer->step();
    });
    if (i >= options["warmup"]) {
      seconds.push_back(taken);
      waits.push_back(waited(*replica) - waited_before);
    }
  }
  const double cpu = largest_over_ranks(*context, (cpu_seconds() - cpu_before) / options["steps"]);
  const double peak = largest_over_ranks(*context, peak_resident());
  if (context->rank == 0) {
    std::printf(
        "{\"images_per_s\": %.3f, \"world_size\": %u, \"ms_per_step\": %.1f, \"waited_ms_per_step\": %.1f, "
        "\"cpu_ms_per_step\": %.1f, \"peak_resident_mb\": %.0f, \"resident_before_mb\": %.0f}\n",
        static_cast<double>(context->world_size) * options["batch-size"] / median(seconds), context->world_size,
        1000 * median(seconds), 1000 * median(waits), 1000 * cpu, peak, before);
  }
  return 0;
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  return rollcall::run(rollcall::benchmarks::parse(argc, argv,
                                                   {{"fsdp", 1},
                                                    {"exchange", 1},
                                                    {"ucx", 0},
                                                    {"prefetch", 1},
                                                    {"keep", 0},
                                                    {"alone-from-kib", 512},
                                                    {"layers", 0},
                                                    {"width", 2048},
                                                    {"batch-size", 16},
                                                    {"image-size", 224},
                                                    {"threads", 1},
                                                    {"steps", 5},
                                                    {"warmup", 2}}));
}
