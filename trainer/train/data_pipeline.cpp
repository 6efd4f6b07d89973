#include "trainer/train/data_pipeline.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "runtime/base/this_process.h"

namespace rollcall::train {
namespace {

void make_samplers(DataPipeline& pipeline, const data::SamplerOptions& wanted, std::uint32_t rank,
                   std::uint32_t world_size) {
  data::SamplerOptions options = wanted;
  options.world_size = world_size;
  options.rank = rank;
  options.dataset_size = pipeline.datasets.train->size();
  pipeline.train_sampler = std::make_unique<data::Sampler>(options);
  pipeline.valid_sampler =
      std::make_unique<data::Sampler>(data::SamplerOptions{.dataset_size = pipeline.datasets.valid->size(),
                                                           .batch_size = options.batch_size,
                                                           .world_size = options.world_size,
                                                           .rank = options.rank,
                                                           .seed = options.seed,
                                                           .pad = true});
}

void make_loaders(DataPipeline& pipeline, const config::DataConfig& config, const model::Device& device) {
  data::LoaderOptions options = config.loading;
  options.pinned = device.wants_pinned_batches();
  options.workers = number_of_workers(config.valid_workers, number_of_cpus(), at::get_num_threads());
  pipeline.valid_loader = std::make_unique<data::Loader>(pipeline.datasets.valid, options);
  options.workers = number_of_workers(config.train_workers, number_of_cpus(), at::get_num_threads());
  options.mixing = config.datasets.augment;
  pipeline.train_loader = std::make_unique<data::Loader>(pipeline.datasets.train, options);
  pipeline.train_workers = options.workers;
}

/// Workers beyond the CPUs of the task take turns and slow the computation down.
void warn_of_workers(DataPipeline& pipeline) {
  const std::uint32_t cpus = number_of_cpus();
  if (pipeline.train_workers > static_cast<int>(cpus)) {
    pipeline.warnings.push_back(
        fmt::format("--train-num-workers: {}: each rank has {} CPUs; try --cpus-per-task={} in sbatch, or auto",
                    pipeline.train_workers, cpus, pipeline.train_workers + 1));
  }
}

}  // namespace

int number_of_workers(std::optional<int> asked, std::uint32_t cpus, int compute_threads) {
  return asked.value_or(std::max(1, static_cast<int>(cpus) - compute_threads));
}

Result<DataPipeline> make_data_pipeline(const config::DataConfig& config, std::uint32_t rank, std::uint32_t world_size,
                                        const model::Device& device) {
  Result<data::Datasets> datasets = data::make_datasets(config.datasets);
  if (!datasets) {
    return datasets.error();
  }
  const std::int64_t images = datasets->train->size();
  const std::int64_t batches = config.sampling.accumulation * world_size;
  const std::int64_t needed = config.sampling.batch_size * batches;
  if (needed > images) {
    return fail("--batch-size", std::to_string(config.sampling.batch_size),
                fmt::format("{} ranks need {} images a step, and the training set has {}", world_size, needed, images),
                fmt::format("--batch-size={} or fewer ranks", std::max<std::int64_t>(1, images / batches)));
  }
  DataPipeline pipeline;
  pipeline.datasets = *std::move(datasets);
  make_samplers(pipeline, config.sampling, rank, world_size);
  make_loaders(pipeline, config, device);
  warn_of_workers(pipeline);
  return pipeline;
}

}  // namespace rollcall::train
