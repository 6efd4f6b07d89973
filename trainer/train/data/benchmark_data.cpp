#include <fmt/format.h>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "trainer/train/data/data_pipeline.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

/// The cost of one pass over the data.
struct Pass {
  std::int64_t images = 0;
  std::int64_t bad = 0;
  double seconds = 0;
  double cpu_seconds = 0;  ///< of all threads of this process
  data::StageTimes times;

  [[nodiscard]] double images_per_second() const { return static_cast<double>(images) / seconds; }
};

Result<Pass> read_epoch(DataPipeline& pipeline, std::uint64_t epoch) {
  Pass pass;
  const double begin = seconds_now();
  const double cpu_begin = usage_of_this_process().cpu_seconds;
  pipeline.train_sampler->set_epoch(epoch);
  RETURN_IF_ERROR(pipeline.train_loader->start(*pipeline.train_sampler));
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<data::Batch> batch, pipeline.train_loader->next());
    if (!batch.has_value()) {
      break;
    }
    pass.images += batch->labels.size(0);
    pass.bad += static_cast<std::int64_t>(batch->bad.size());
    pass.times += batch->times;
  }
  pass.seconds = seconds_now() - begin;
  pass.cpu_seconds = usage_of_this_process().cpu_seconds - cpu_begin;
  return pass;
}

const Pass& median_of(std::vector<Pass>& passes) {
  std::sort(passes.begin(), passes.end(),
            [](const Pass& a, const Pass& b) { return a.images_per_second() < b.images_per_second(); });
  return passes[(passes.size() - 1) / 2];
}

double microseconds(std::chrono::nanoseconds time, std::int64_t samples) {
  return samples > 0 ? static_cast<double>(time.count()) / 1e3 / static_cast<double>(samples) : 0;
}

void print_json(const Pass& median, const std::vector<Pass>& passes, const DataPipeline& pipeline) {
  nlohmann::json epochs = nlohmann::json::array();
  for (const Pass& pass : passes) {
    epochs.push_back(pass.images_per_second());
  }
  const std::int64_t n = median.times.samples;
  const nlohmann::json object{{"images_per_second", median.images_per_second()},
                              {"images", median.images},
                              {"bad", median.bad},
                              {"seconds", median.seconds},
                              {"cpu_seconds", median.cpu_seconds},
                              {"images_per_cpu_second", static_cast<double>(median.images) / median.cpu_seconds},
                              {"fetch_us", microseconds(median.times.fetch, n)},
                              {"decode_us", microseconds(median.times.decode, n)},
                              {"augment_us", microseconds(median.times.augment, n)},
                              {"workers", pipeline.train_loading.workers},
                              {"peak_memory_bytes", peak_memory()},
                              {"epochs", epochs}};
  fmt::print("{}\n", object.dump());
}

void print_table(const Pass& median, const std::vector<Pass>& passes, const DataPipeline& pipeline) {
  const std::int64_t n = median.times.samples;
  fmt::print("{} an epoch, {}, median of {}\n", counted(median.images, "image"),
             counted(pipeline.train_loading.workers, "worker"), counted(passes.size(), "epoch"));
  fmt::print("  images per second        {:9.1f}   (slowest {:.1f}, fastest {:.1f})\n", median.images_per_second(),
             passes.front().images_per_second(), passes.back().images_per_second());
  fmt::print("  images per CPU second    {:9.1f}\n", static_cast<double>(median.images) / median.cpu_seconds);
  fmt::print("  fetch, us per image      {:9.1f}\n", microseconds(median.times.fetch, n));
  fmt::print("  decode, us per image     {:9.1f}\n", microseconds(median.times.decode, n));
  fmt::print("  augment, us per image    {:9.1f}\n", microseconds(median.times.augment, n));
  fmt::print("  peak memory, MiB         {:9.0f}\n", static_cast<double>(peak_memory()) / (1 << 20));
  if (median.bad > 0) {
    fmt::print("  images that could not be read: {}\n", median.bad);
  }
}

}  // namespace

Result<void> benchmark_data(const settings::Settings& settings, const Environment& environment, bool json,
                            bool prints) {
  ASSIGN_OR_RETURN(const config::DataConfig config, config::make_data_config(settings, environment));
  data::SourceIndices indices(config.index_folder);
  ASSIGN_OR_RETURN(data::Datasets datasets, data::make_datasets(config.datasets, indices));
  for (const std::string& warning : indices.warnings()) {
    fmt::print(stderr, "rollcall: warning: {}\n", warning);
  }
  JobContext alone;
  alone.share = share_of_node(environment, 1, false);
  ASSIGN_OR_RETURN(DataPipeline pipeline, make_data_pipeline(std::move(datasets), config, alone, {}));
  std::vector<Pass> passes;
  const auto epochs = static_cast<std::uint64_t>(config.benchmark_epochs);
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    ASSIGN_OR_RETURN(Pass pass, read_epoch(pipeline, epoch));
    if (epoch > 0 || epochs == 1) {
      passes.push_back(pass);
    }
  }
  const Pass median = median_of(passes);
  if (prints) {
    (json ? print_json : print_table)(median, passes, pipeline);
  }
  return {};
}

}  // namespace rollcall::train
