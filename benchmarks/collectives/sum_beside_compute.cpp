// What an all-reduce costs a computation that goes on meanwhile: each rank multiplies matrices, alone and beside an
// asynchronous all-reduce. Prints one JSON line (rank 0); milliseconds, medians.
//   sum_beside_compute --ucx=1 --mib=25 --compute-ms=100

#include <algorithm>
#include <cstdio>
#include <vector>

#include "benchmarks/ranks.h"
#include "runtime/base/this_process.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"

namespace rollcall {
namespace {

using benchmarks::seconds_of;

struct Times {
  std::vector<double> compute;         ///< the computation alone
  std::vector<double> sum;             ///< the all-reduce alone
  std::vector<double> compute_beside;  ///< the computation while the all-reduce runs
  std::vector<double> both;            ///< until both are done
};

double median_ms(std::vector<double> seconds) {
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return 1000 * *middle;
}

class Experiment {
 public:
  Experiment(process_group::Group group, int mib, double compute_seconds)
      : group_(std::move(group)), tensors_({torch::zeros({std::int64_t{mib} << 18})}) {
    constexpr int kTrial = 100;
    multiply(kTrial);
    const double once = seconds_of([this] { multiply(kTrial); }) / kTrial;
    std::vector<at::Tensor> slowest{torch::tensor({once}, at::kDouble)};
    group_->allreduce(slowest, {.reduceOp = c10d::ReduceOp::MAX})->wait();  // the same number on all ranks
    products_ = std::max(1, static_cast<int>(compute_seconds / slowest[0].item<double>()));
  }

  void run_once(Times& times) {
    meet();
    times.compute.push_back(seconds_of([this] { multiply(products_); }));
    meet();
    times.sum.push_back(seconds_of([this] { group_->allreduce(tensors_)->wait(); }));
    meet();
    times.both.push_back(seconds_of([&] {
      const auto sum = group_->allreduce(tensors_);
      times.compute_beside.push_back(seconds_of([this] { multiply(products_); }));
      sum->wait();
    }));
  }

 private:
  void meet() { group_->barrier()->wait(); }

  void multiply(int products) {
    for (int i = 0; i < products; ++i) {
      at::mm_out(product_, left_, right_);
    }
  }

  process_group::Group group_;
  std::vector<at::Tensor> tensors_;
  int products_ = 1;
  at::Tensor left_ = torch::randn({256, 256});
  at::Tensor right_ = torch::randn({256, 256});
  at::Tensor product_ = torch::empty({256, 256});
};

int run(benchmarks::Options options) {
  train::FailureReport report(0, 0, this_host_name());
  Result<train::JobContext> context = benchmarks::join(report, 1, options["ucx"] != 0 ? "ucx" : "gloo");
  if (!context) {
    return report.report_own(context.error());
  }
  Experiment experiment(context->process_group, options["mib"], options["compute-ms"] / 1000.0);
  Times warm_up;
  experiment.run_once(warm_up);
  Times times;
  for (int i = 0; i < options["repeats"]; ++i) {
    experiment.run_once(times);
  }
  if (context->rank == 0) {
    std::printf("{\"compute_ms\": %.2f, \"sum_ms\": %.2f, \"compute_beside_ms\": %.2f, \"both_ms\": %.2f}\n",
                median_ms(times.compute), median_ms(times.sum), median_ms(times.compute_beside), median_ms(times.both));
  }
  return 0;
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  return rollcall::run(
      rollcall::benchmarks::parse(argc, argv, {{"ucx", 0}, {"mib", 25}, {"compute-ms", 100}, {"repeats", 10}}));
}
