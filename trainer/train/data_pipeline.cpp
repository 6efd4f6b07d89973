#include "trainer/train/data_pipeline.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <utility>

#include "runtime/base/this_process.h"
#include "runtime/settings/values.h"

namespace rollcall::train {
namespace {

data::AugmentOptions augment_options(const settings::Settings& settings) {
  data::AugmentOptions options;
  options.colour_jitter = {settings.number("brightness"), settings.number("contrast"), settings.number("saturation"),
                           settings.number("hue")};
  const std::string policy = settings.text("auto-augment");
  if (policy != "none") {
    options.policy =
        policy == "randaugment" ? data::AugmentPolicy::RandAugment : data::AugmentPolicy::TrivialAugmentWide;
  }
  options.randaugment_ops = static_cast<int>(settings.integer("randaugment-ops"));
  options.randaugment_magnitude = static_cast<int>(settings.integer("randaugment-magnitude"));
  options.erase_probability = settings.number("random-erase");
  options.erase_value =
      settings.text("random-erase-value") == "random" ? data::EraseValue::Random : data::EraseValue::Zero;
  options.mixup_alpha = settings.number("mixup");
  options.cutmix_alpha = settings.number("cutmix");
  return options;
}

data::DataOptions data_options(const settings::Settings& settings, std::string source) {
  data::DataOptions options;
  options.source = std::move(source);
  options.fake_samples = settings.integer("fake-size");
  options.image_size = static_cast<int>(settings.integer("image-size"));
  options.resize_size = static_cast<int>(settings.integer("valid-resize"));
  options.crop_scale_min = settings.number("crop-scale-min");
  options.crop_scale_max = settings.number("crop-scale-max");
  options.crop_ratio_min = settings.number("crop-ratio-min");
  options.crop_ratio_max = settings.number("crop-ratio-max");
  options.flip_probability = settings.number("flip");
  options.vertical_flip_probability = settings.number("vertical-flip");
  options.augment = augment_options(settings);
  options.seed = static_cast<std::uint64_t>(settings.integer("seed"));
  return options;
}

data::SamplerOptions sampler_options(const settings::Settings& settings, std::uint32_t rank, std::uint32_t world_size,
                                     std::int64_t dataset_size) {
  data::SamplerOptions options;
  options.dataset_size = dataset_size;
  options.batch_size = settings.integer("batch-size");
  options.world_size = world_size;
  options.rank = rank;
  options.seed = static_cast<std::uint64_t>(settings.integer("seed"));
  return options;
}

data::LoaderOptions loader_options(const settings::Settings& settings, const char* workers) {
  data::LoaderOptions options;
  options.workers = number_of_workers(settings.text(workers), number_of_cpus(), at::get_num_threads());
  options.prefetch = static_cast<int>(settings.integer("prefetch"));
  options.batch_size = settings.integer("batch-size");
  options.image_size = static_cast<int>(settings.integer("image-size"));
  options.pixel_type =
      settings.text("image-dtype") == "bfloat16" ? data::PixelType::BFloat16 : data::PixelType::Float32;
  options.pinned = at::globalContext().hasCUDA();
  options.decode = {.apply_orientation = settings.on("exif-orientation"), .dct_scaling = settings.on("dct-scaling")};
  options.seed = static_cast<std::uint64_t>(settings.integer("seed"));
  options.bad_samples = settings.text("bad-samples") == "fail" ? data::BadSamples::Fail : data::BadSamples::Skip;
  return options;
}

Result<data::Datasets> open_datasets(const settings::Settings& settings, const Environment& environment) {
  Result<std::string> source = settings::expand_path(settings.text("data"), environment, "--data");
  if (!source) {
    return source.error();
  }
  return data::make_datasets(data_options(settings, *std::move(source)));
}

void make_samplers(DataPipeline& pipeline, const settings::Settings& settings, std::uint32_t rank,
                   std::uint32_t world_size) {
  data::SamplerOptions options = sampler_options(settings, rank, world_size, pipeline.datasets.train->size());
  options.accumulation = settings.integer("grad-accumulation");
  options.shuffle = true;
  options.window = settings.integer("shuffle-window");
  options.pad = settings.text("last-batch") == "pad";
  options.drop_last = !options.pad;
  pipeline.train_sampler = std::make_unique<data::Sampler>(options);
  options = sampler_options(settings, rank, world_size, pipeline.datasets.valid->size());
  options.pad = true;
  pipeline.valid_sampler = std::make_unique<data::Sampler>(options);
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

int number_of_workers(const std::string& asked, std::uint32_t cpus, int compute_threads) {
  if (asked == "auto") {
    return std::max(1, static_cast<int>(cpus) - compute_threads);
  }
  int number = 0;
  std::from_chars(asked.data(), asked.data() + asked.size(), number);
  return number;
}

Result<DataPipeline> make_data_pipeline(const settings::Settings& settings, std::uint32_t rank,
                                        std::uint32_t world_size, const Environment& environment) {
  Result<data::Datasets> datasets = open_datasets(settings, environment);
  if (!datasets) {
    return datasets.error();
  }
  const std::int64_t images = datasets->train->size();
  const std::int64_t accumulation = settings.integer("grad-accumulation");
  const std::int64_t needed = settings.integer("batch-size") * accumulation * world_size;
  if (needed > images) {
    return fail(
        "--batch-size", settings.text("batch-size"),
        fmt::format("{} ranks need {} images a step, and the training set has {}", world_size, needed, images),
        fmt::format("--batch-size={} or fewer ranks", std::max<std::int64_t>(1, images / (world_size * accumulation))));
  }
  DataPipeline pipeline;
  pipeline.datasets = *std::move(datasets);
  make_samplers(pipeline, settings, rank, world_size);
  data::LoaderOptions train_options = loader_options(settings, "train-num-workers");
  train_options.mixing = augment_options(settings);
  pipeline.train_workers = train_options.workers;
  pipeline.train_loader = std::make_unique<data::Loader>(pipeline.datasets.train, train_options);
  pipeline.valid_loader =
      std::make_unique<data::Loader>(pipeline.datasets.valid, loader_options(settings, "valid-num-workers"));
  warn_of_workers(pipeline);
  return pipeline;
}

}  // namespace rollcall::train
