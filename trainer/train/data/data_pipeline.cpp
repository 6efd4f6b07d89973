#include "trainer/train/data/data_pipeline.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/train/devices_of_ranks.h"

namespace rollcall::train {
namespace {

void make_samplers(DataPipeline& pipeline, const data::SamplerOptions& wanted, bool balanced, const JobContext& context,
                   const parallel::VirtualRanks& ranks) {
  data::SamplerOptions options = wanted;
  options.world_size = ranks.all;
  options.rank = ranks.mine > 0 ? ranks.first : 0;
  options.ranks = ranks.mine;
  options.dataset_size = pipeline.datasets.train->size();
  if (balanced) {
    auto samples = data::samples_by_label(*pipeline.datasets.train);
    std::erase_if(samples, [](const auto& of_label) { return of_label.empty(); });
    options.balanced = std::make_shared<const std::vector<std::vector<std::int64_t>>>(std::move(samples));
  }
  pipeline.train_sampler = std::make_unique<data::Sampler>(options);
  pipeline.valid_sampler =
      std::make_unique<data::Sampler>(data::SamplerOptions{.dataset_size = pipeline.datasets.valid->size(),
                                                           .batch_size = options.batch_size,
                                                           .world_size = context.world_size,
                                                           .rank = context.rank,
                                                           .seed = options.seed,
                                                           .pad = true});
}

/// Returns the type of images in memory. Rounded to uint8 they are what Pillow and torchvision's uint8 tensors are
/// after a resize, and mixtures are what timm's are. Random values that fill a box would be cut to what pixels can be.
data::PixelType pixel_type(const config::DataConfig& config, const device::Device& device,
                           c10::ScalarType computes_in) {
  if (config.pixel_type || !device.wants_pinned_batches()) {
    return config.pixel_type.value_or(data::PixelType::Float32);
  }
  const data::AugmentOptions& augment = config.datasets.augment;
  if (augment.erase_probability == 0 || augment.erase_value == data::EraseValue::Zero) {
    return data::PixelType::UInt8;
  }
  return computes_in == at::kBFloat16 ? data::PixelType::BFloat16 : data::PixelType::Float32;
}

void make_loaders(DataPipeline& pipeline, const config::DataConfig& config, const NodeShare& share,
                  const device::Device& device, c10::ScalarType computes_in) {
  pipeline.near_cpus = cpus_near(device.facts().bus, cpus_of_this_process());
  pipeline.sharing_ranks = share.sharing;
  pipeline.valid_loading = loading_for_validation(config, share, device, computes_in);
  data::LoaderOptions options = pipeline.valid_loading;
  options.image_size = config.loading.image_size;
  options.growth = config.loading.growth;
  options.room_size = pipeline.valid_loading.room_size =
      std::max(options.image_size, pipeline.valid_loading.image_size);
  options.workers = workers_at_first(config.train_workers, share, options);
  options.worker_cpus = cpus_of_workers(pipeline.near_cpus, options.workers, share.sharing);
  options.mixing = config.datasets.augment;
  pipeline.train_loading = options;
  if (!config.train_workers) {
    pipeline.tuning = WorkerTuning(options.workers, most_workers(share, options));
  }
}

/// Checks that the batches fit into memory. Tensors are filled as batches are read: if they did not fit, the kernel
/// would kill the rank in the middle of its first steps. Page-locked memory serves both loaders.
Result<void> check_memory(const DataPipeline& pipeline, const NodeShare& share) {
  const std::uint64_t training = bytes_read_ahead(pipeline.train_loading);
  const std::uint64_t validation = bytes_read_ahead(pipeline.valid_loading);
  const std::uint64_t needed = pipeline.train_loading.pinned ? std::max(training, validation) : training + validation;
  if (share.memory == 0 || needed <= share.memory) {
    return {};
  }
  Error error = fail(
      "--train-num-workers", std::to_string(pipeline.train_loading.workers),
      fmt::format("batches read ahead for training and validation (--prefetch={}) take {}, but each rank has {}",
                  pipeline.train_loading.prefetch, metrics::human_bytes(needed), metrics::human_bytes(share.memory)),
      "using fewer workers, or --prefetch=1, or lowering --batch-size, or requesting more memory for each task "
      "(--mem-per-cpu)");
  error.of_this_node = true;
  return error;
}

/// Warns of more workers than CPUs: they take turns and slow the computation down.
void warn_of_workers(DataPipeline& pipeline, const NodeShare& share) {
  const int workers = pipeline.train_loading.workers;
  if (workers > static_cast<int>(share.cpus)) {
    pipeline.warnings.push_back(fmt::format(
        "--train-num-workers: {}: each rank has {}; try --cpus-per-task={} in sbatch, or --train-num-workers=auto",
        workers, counted(share.cpus, "CPU"), workers + 1));
  }
}

std::string describe_ring(const data::LoaderOptions& options) {
  return fmt::format("{} read ahead ({})",
                     counted(options.workers == 0 ? 0 : options.batches_ahead(), "batch", "batches"),
                     metrics::human_bytes(bytes_read_ahead(options)));
}

}  // namespace

data::LoaderOptions loading_for_validation(const config::DataConfig& config, const NodeShare& share,
                                           const device::Device& device, c10::ScalarType computes_in) {
  data::LoaderOptions options = config.loading;
  options.pixel_type = pixel_type(config, device, computes_in);
  options.pinned = device.wants_pinned_batches();
  options.device = device.device();
  options.held = options.pinned ? data::DevicePrefetcher::kInFlight : 0;
  options.image_size = data::valid_image_size(config.datasets);
  options.growth = {};
  options.workers = workers_at_first(config.valid_workers, share, options);
  options.worker_cpus =
      cpus_of_workers(cpus_near(device.facts().bus, cpus_of_this_process()), options.workers, share.sharing);
  return options;
}

std::unique_ptr<data::DevicePrefetcher> make_prefetcher(const JobContext& context,
                                                        const data::Normalisation& normalisation,
                                                        c10::ScalarType computes_in) {
  return std::make_unique<data::DevicePrefetcher>(context.device.device(), context.device.kernels(), normalisation,
                                                  computes_in, context.longest_wait());
}

Result<DataPipeline> make_data_pipeline(data::Datasets datasets, const config::DataConfig& config,
                                        const JobContext& context, const parallel::VirtualRanks& ranks,
                                        c10::ScalarType computes_in) {
  const std::int64_t images = datasets.train->size();
  const std::int64_t batches = config.sampling.accumulation * ranks.all;
  const std::int64_t needed = config.sampling.batch_size * batches;
  if (needed > images && config.global_batch > 0) {
    return fail("--global-batch", std::to_string(config.global_batch),
                fmt::format("is more than the {} of the training set", counted(images, "image")),
                fmt::format("--global-batch={}", std::max(ranks.all, images / ranks.all * ranks.all)));
  }
  if (needed > images) {
    return fail("--batch-size", std::to_string(config.sampling.batch_size),
                fmt::format("{} {} {} a step, but the training set has {}",
                            counted(ranks.all, ranks.all == context.world_size ? "rank" : "virtual rank"),
                            ranks.all == 1 ? "needs" : "need", counted(needed, "image"), images),
                fmt::format("--batch-size={}, or using fewer ranks", std::max<std::int64_t>(1, images / batches)));
  }
  DataPipeline pipeline;
  pipeline.datasets = std::move(datasets);
  make_samplers(pipeline, config.sampling, config.balanced, context, ranks);
  make_loaders(pipeline, config, context.share, context.device, computes_in);
  RETURN_IF_ERROR(check_memory(pipeline, context.share));
  warn_of_workers(pipeline, context.share);
  pipeline.prefetcher = make_prefetcher(context, config.datasets.normalisation, computes_in);
  pipeline.train_loader = std::make_unique<data::Loader>(pipeline.datasets.train, pipeline.train_loading);
  pipeline.valid_loader = std::make_unique<data::Loader>(pipeline.datasets.valid, pipeline.valid_loading);
  return pipeline;
}

Result<void> DataPipeline::continue_with_workers(int workers, std::int64_t next_batch) {
  train_loading.workers = workers;
  train_loading.worker_cpus = cpus_of_workers(near_cpus, workers, sharing_ranks);
  train_loader.reset();  // first, so that there are never two rings
  Result<void> started;
  const auto caught = process_group::catch_exception([&] {
    train_loader = std::make_unique<data::Loader>(datasets.train, train_loading);
    started = train_loader->start(*train_sampler, next_batch);
  });
  if (caught) {  // no memory for the ring, because of a limit (ulimit -v)
    return fail("--train-num-workers", std::to_string(workers), caught->error.reason, "using fewer workers",
                ErrorKind::Unavailable);
  }
  return started;
}

std::string describe_loading(const DataPipeline& pipeline, const config::DataConfig& config, const NodeShare& share) {
  const data::LoaderOptions& train = pipeline.train_loading;
  const std::string why = config.train_workers
                              ? ""
                              : fmt::format(" (auto: {}, {} of them for computing)", counted(share.cpus, "CPU"),
                                            std::min(share.cpus, share.compute_cpus));
  const std::string where =
      train.worker_cpus.empty() ? "" : fmt::format(" on CPUs {} near its device", ranges_text(train.worker_cpus));
  return fmt::format("each rank loads with {}{}{}, {}; for validation {}, {}", counted(train.workers, "worker"), where,
                     why, describe_ring(train), pipeline.valid_loading.workers,
                     train.pinned ? "in the same memory" : describe_ring(pipeline.valid_loading));
}

}  // namespace rollcall::train
