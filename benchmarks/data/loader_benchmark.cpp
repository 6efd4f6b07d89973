// What the loader itself costs, with a data set that costs nothing: time per sample with 0 and more workers, and how
// long a stop in mid-epoch takes while every worker is busy with a sample of 10 ms.
#include <benchmark/benchmark.h>
#include <chrono>
#include <memory>
#include <thread>

#include "trainer/data/loader/loader.h"

namespace rollcall::data {
namespace {

class Instant : public Dataset {
 public:
  explicit Instant(std::chrono::milliseconds pause) : pause_(pause) {}

  std::int64_t size() const override { return 1 << 20; }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return index; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string describe(std::int64_t index) const override { return std::to_string(index); }
  Result<std::int64_t> read(std::int64_t index, std::uint64_t /*epoch*/, const OutputPixels& /*out*/,
                            Workspace& /*workspace*/) const override {
    if (pause_.count() > 0) {
      std::this_thread::sleep_for(pause_);
    }
    return index;
  }

 private:
  std::chrono::milliseconds pause_;
  std::vector<std::string> names_;
};

Sampler endless() {
  SamplerOptions options;
  options.dataset_size = 1 << 20;
  options.batch_size = 64;
  options.shuffle = true;
  return Sampler(options);
}

LoaderOptions with_workers(std::int64_t workers) {
  LoaderOptions options;
  options.workers = static_cast<int>(workers);
  options.batch_size = 64;
  options.image_size = 32;
  return options;
}

void per_sample(benchmark::State& state) {
  Loader loader(std::make_shared<Instant>(std::chrono::milliseconds(0)), with_workers(state.range(0)));
  bool failed = !loader.start(endless());
  for (auto _ : state) {
    auto batch = loader.next();
    failed = failed || !batch;
    if (!failed && !batch->has_value()) {
      failed = !loader.start(endless());
    }
  }
  if (failed) {
    state.SkipWithError("the loader failed");
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(per_sample)->Arg(0)->Arg(1)->Arg(2)->UseRealTime();

void stop_in_mid_epoch(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    auto loader = std::make_unique<Loader>(std::make_shared<Instant>(std::chrono::milliseconds(10)),
                                           with_workers(state.range(0)));
    if (!loader->start(endless()) || !loader->next()) {
      state.SkipWithError("the loader failed");
      break;
    }
    state.ResumeTiming();
    loader.reset();
  }
}
BENCHMARK(stop_in_mid_epoch)->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond)->Iterations(5)->UseRealTime();

}  // namespace
}  // namespace rollcall::data

BENCHMARK_MAIN();
