#include "trainer/train/task.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/model/state.h"

namespace rollcall::train {
namespace {

Result<void> build_model(Task& task, const settings::Settings& settings) {
  const std::int64_t asked = settings.integer("num-classes");
  const auto classes = static_cast<std::int64_t>(task.data.datasets.class_names.size());
  if (asked != 0 && asked < classes) {
    return fail("--num-classes", settings.text("num-classes"), fmt::format("the data has {} classes", classes),
                "leaving it out");
  }
  torch::manual_seed(static_cast<std::uint64_t>(settings.integer("seed")));
  Result<model::ResNet> made =
      model::make_model(settings.text("model"), {.num_classes = asked != 0 ? asked : task.data.datasets.num_classes,
                                                 .zero_init_residual = settings.on("zero-init-residual")});
  if (!made) {
    return made.error();
  }
  task.model = *std::move(made);
  if (settings.on("channels-last")) {
    model::use_channels_last(*task.model);
  } else {
    task.memory_format = at::MemoryFormat::Contiguous;
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

/// The options for a step's whole batch, by one of the two scaling rules: batches whose gradients are accumulated count
/// as ranks do, so that a training is the same on more ranks with less accumulation.
Result<optim::OptimizerOptions> scaled_options(const settings::Settings& settings, const World& world) {
  optim::OptimizerOptions options = optimizer_options(settings);
  const auto batches = world.world_size * static_cast<std::uint32_t>(settings.integer("grad-accumulation"));
  if (settings.on("scale-optim-params")) {
    return optim::scale_optim_params(options, batches);
  }
  const Result<optim::LearningRateScaling> scaling = optim::parse_learning_rate_scaling(settings.text("lr-scaling"));
  if (!scaling) {
    return scaling.error();
  }
  options.learning_rate = optim::scaled_learning_rate(options.learning_rate, *scaling, batches);
  return options;
}

}  // namespace

Result<Task> make_task(const settings::Settings& settings, const World& world, const Environment& environment) {
  Task task;
  task.epochs = settings.integer("epochs");
  task.max_steps = settings.integer("max-steps");
  task.valid_epochs = settings.integer("valid-epochs");
  task.label_smoothing = settings.number("label-smoothing");
  task.clip_grad_norm = settings.number("clip-grad-norm");
  task.grad_accumulation = settings.integer("grad-accumulation");
  Result<DataPipeline> data = make_data_pipeline(settings, world.rank, world.world_size, environment);
  if (!data) {
    return data.error();
  }
  task.data = *std::move(data);
  task.compute_type = precision::compute_type(settings.text("precision"));
  if (Result<void> checked = precision::check_operators(task.compute_type); !checked) {
    return checked.error();
  }
  task.loss_scaler = precision::LossScaler(task.compute_type == at::kHalf);
  if (Result<void> built = build_model(task, settings); !built) {
    return built.error();
  }
  return task;
}

Result<void> add_optimizer(Task& task, const parallel::Replica& replica, const settings::Settings& settings,
                           const World& world) {
  const Result<optim::OptimizerOptions> options = scaled_options(settings, world);
  if (!options) {
    return options.error();
  }
  Result<std::unique_ptr<torch::optim::Optimizer>> made = optim::make_optimizer(*options, replica.named_parameters());
  if (!made) {
    return made.error();
  }
  task.optimizer = *std::move(made);
  const Result<optim::ScheduleKind> kind = optim::parse_schedule(settings.text("lr-schedule"));
  if (!kind) {
    return kind.error();
  }
  const auto steps_per_epoch = static_cast<double>(task.data.train_sampler->steps());
  const auto steps = [&](const char* epochs) {
    return static_cast<std::int64_t>(std::llround(settings.number(epochs) * steps_per_epoch));
  };
  task.schedule.learning_rate = options->learning_rate;
  task.schedule.kind = *kind;
  task.schedule.warmup_steps = steps("warmup-epochs");
  task.schedule.steps_per_drop = std::max<std::int64_t>(1, steps("lr-step-epochs"));
  task.schedule.drop_factor = settings.number("lr-step-factor");
  task.schedule.total_steps = task.epochs * task.data.train_sampler->steps();
  if (task.max_steps > 0) {
    task.schedule.total_steps = std::min(task.schedule.total_steps, task.max_steps);
  }
  return {};
}

}  // namespace rollcall::train
