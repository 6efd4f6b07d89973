#include "trainer/train/task.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/job/cpu_set.h"
#include "runtime/settings/path_expansion.h"
#include "trainer/model/state.h"

namespace rollcall::train {
namespace {

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
  options.seed = static_cast<std::uint64_t>(settings.integer("seed"));
  return options;
}

data::SamplerOptions sampler_options(const settings::Settings& settings, const World& world,
                                     std::int64_t dataset_size) {
  data::SamplerOptions options;
  options.dataset_size = dataset_size;
  options.batch_size = settings.integer("batch-size");
  options.world_size = world.world_size;
  options.rank = world.rank;
  options.seed = static_cast<std::uint64_t>(settings.integer("seed"));
  return options;
}

data::LoaderOptions loader_options(const settings::Settings& settings, const char* workers) {
  data::LoaderOptions options;
  options.workers = static_cast<int>(settings.integer(workers));
  options.prefetch = static_cast<int>(settings.integer("prefetch"));
  options.batch_size = settings.integer("batch-size");
  options.image_size = static_cast<int>(settings.integer("image-size"));
  options.bad_samples = settings.text("bad-samples") == "fail" ? data::BadSamples::Fail : data::BadSamples::Skip;
  return options;
}

Result<void> open_data(Task& task, const settings::Settings& settings, const World& world,
                       const Environment& environment) {
  Result<std::string> source = settings::expand_path(settings.text("data"), environment, "--data");
  if (!source) {
    return source.error();
  }
  Result<data::Datasets> datasets = data::make_datasets(data_options(settings, *std::move(source)));
  if (!datasets) {
    return datasets.error();
  }
  task.datasets = *std::move(datasets);
  const std::int64_t images = task.datasets.train->size();
  const std::int64_t needed = settings.integer("batch-size") * world.world_size;
  if (needed > images) {
    return fail(
        "--batch-size", settings.text("batch-size"),
        fmt::format("{} ranks need {} images a step, and the training set has {}", world.world_size, needed, images),
        fmt::format("--batch-size={} or fewer ranks", std::max<std::int64_t>(1, images / world.world_size)));
  }
  data::SamplerOptions options = sampler_options(settings, world, images);
  options.shuffle = true;
  options.drop_last = true;
  task.train_sampler = std::make_unique<data::Sampler>(options);
  options = sampler_options(settings, world, task.datasets.valid->size());
  options.pad = true;
  task.valid_sampler = std::make_unique<data::Sampler>(options);
  task.train_loader =
      std::make_unique<data::Loader>(task.datasets.train, loader_options(settings, "train-num-workers"));
  task.valid_loader =
      std::make_unique<data::Loader>(task.datasets.valid, loader_options(settings, "valid-num-workers"));
  return {};
}

Result<void> build_model(Task& task, const settings::Settings& settings) {
  const std::int64_t asked = settings.integer("num-classes");
  const auto classes = static_cast<std::int64_t>(task.datasets.class_names.size());
  if (asked != 0 && asked < classes) {
    return fail("--num-classes", settings.text("num-classes"), fmt::format("the data has {} classes", classes),
                "leaving it out");
  }
  torch::manual_seed(static_cast<std::uint64_t>(settings.integer("seed")));
  Result<model::ResNet> made =
      model::make_model(settings.text("model"), {.num_classes = asked != 0 ? asked : task.datasets.num_classes,
                                                 .zero_init_residual = settings.on("zero-init-residual")});
  if (!made) {
    return made.error();
  }
  task.model = *std::move(made);
  if (settings.on("channels-last")) {
    model::use_channels_last(*task.model);
  }
  return {};
}

optim::OptimizerOptions optimizer_options(const settings::Settings& settings) {
  optim::OptimizerOptions options;
  options.name = settings.text("optimizer");
  options.learning_rate = settings.number("lr");
  options.weight_decay = settings.number("weight-decay");
  options.momentum = settings.number("momentum");
  options.nesterov = settings.on("nesterov");
  options.beta1 = settings.number("adam-beta1");
  options.beta2 = settings.number("adam-beta2");
  options.eps = settings.number("adam-eps");
  return options;
}

/// The options for all ranks together, by one of the two scaling rules.
Result<optim::OptimizerOptions> scaled_options(const settings::Settings& settings, const World& world) {
  optim::OptimizerOptions options = optimizer_options(settings);
  if (settings.on("scale-optim-params")) {
    return optim::scale_optim_params(options, world.world_size);
  }
  const Result<optim::LearningRateScaling> scaling = optim::parse_learning_rate_scaling(settings.text("lr-scaling"));
  if (!scaling) {
    return scaling.error();
  }
  options.learning_rate = optim::scaled_learning_rate(options.learning_rate, *scaling, world.world_size);
  return options;
}

Result<void> build_optimizer(Task& task, const settings::Settings& settings, const World& world) {
  const Result<optim::OptimizerOptions> options = scaled_options(settings, world);
  if (!options) {
    return options.error();
  }
  Result<std::unique_ptr<torch::optim::Optimizer>> made =
      optim::make_optimizer(*options, task.model->named_parameters());
  if (!made) {
    return made.error();
  }
  task.optimizer = *std::move(made);
  const Result<optim::ScheduleKind> kind = optim::parse_schedule(settings.text("lr-schedule"));
  if (!kind) {
    return kind.error();
  }
  const auto steps_per_epoch = static_cast<double>(task.train_sampler->steps());
  const auto steps = [&](const char* epochs) {
    return static_cast<std::int64_t>(std::llround(settings.number(epochs) * steps_per_epoch));
  };
  task.schedule.learning_rate = options->learning_rate;
  task.schedule.kind = *kind;
  task.schedule.warmup_steps = steps("warmup-epochs");
  task.schedule.steps_per_drop = std::max<std::int64_t>(1, steps("lr-step-epochs"));
  task.schedule.drop_factor = settings.number("lr-step-factor");
  task.schedule.total_steps = task.epochs * task.train_sampler->steps();
  return {};
}

/// Workers beyond the CPUs of the task take turns and slow the computation down.
void warn_of_workers(Task& task, const settings::Settings& settings) {
  const std::uint32_t cpus = job::cpus_of_this_process();
  const std::int64_t workers = settings.integer("train-num-workers");
  if (workers > static_cast<std::int64_t>(cpus)) {
    task.warnings.push_back(
        fmt::format("--train-num-workers: {}: each rank has {} CPUs; try --cpus-per-task={} in sbatch", workers, cpus,
                    workers + 1));
  }
}

}  // namespace

Result<Task> make_task(const settings::Settings& settings, const World& world, const Environment& environment) {
  Task task;
  task.epochs = settings.integer("epochs");
  task.max_steps = settings.integer("max-steps");
  task.valid_epochs = settings.integer("valid-epochs");
  task.label_smoothing = settings.number("label-smoothing");
  if (Result<void> opened = open_data(task, settings, world, environment); !opened) {
    return opened.error();
  }
  if (Result<void> built = build_model(task, settings); !built) {
    return built.error();
  }
  if (Result<void> built = build_optimizer(task, settings, world); !built) {
    return built.error();
  }
  warn_of_workers(task, settings);
  return task;
}

}  // namespace rollcall::train
