// One rank that opens a data set as a training does: --data=PATH [--index-dir=DIR]. Prints its seconds, the bytes of
// memory that came with the data (its part of what is shared), and the images.

#include <fmt/format.h>
#include <sys/resource.h>
#include <cstdlib>
#include <fstream>
#include <string>

#include "benchmarks/ranks.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/data/shared_data.h"

namespace {

/// Memory of this process, shared pages counted in proportion (proc(5), smaps_rollup).
std::int64_t proportional_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  std::int64_t kibibytes = 0;
  while (file >> word) {
    if (word == "Pss:") {
      file >> kibibytes;
      break;
    }
  }
  return kibibytes * 1024;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rollcall;
  train::FailureReport report(0, 0, "");
  const Result<train::JobContext> context = benchmarks::join(report, 1, "gloo");
  config::DataConfig config;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string text = argument.substr(argument.find('=') + 1);
    (argument.starts_with("--data=") ? config.datasets.source : config.index_folder) = text;
  }
  if (!context) {
    fmt::print(stderr, "{}\n", context.error().message());
    return EXIT_FAILURE;
  }
  const std::int64_t before = proportional_bytes();
  std::vector<std::string> warnings;
  Result<data::Datasets> datasets = data::Datasets{};
  const double seconds =
      benchmarks::seconds_of([&] { datasets = train::open_shared_data(config, *context, warnings); });
  if (!datasets || !process_group::barrier(context->process_group)) {
    fmt::print(stderr, "{}\n", datasets ? "lost a rank" : datasets.error().message());
    return EXIT_FAILURE;
  }
  const std::int64_t after = proportional_bytes();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("{} {} {} {}\n", seconds, after - before, usage.ru_maxrss * 1024,
             datasets->train->size() + datasets->valid->size());
  return process_group::barrier(context->process_group) ? EXIT_SUCCESS : EXIT_FAILURE;
}
