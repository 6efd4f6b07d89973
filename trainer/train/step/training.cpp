#include "trainer/train/step/training.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/distributed/ddp/make_replica.h"
#include "trainer/model/resnet.h"
#include "trainer/model/script.h"
#include "trainer/model/state.h"
#include "trainer/precision/autocast.h"
#include "trainer/train/data/class_weights.h"
#include "trainer/train/data/shared_data.h"

namespace rollcall::train {
namespace {

std::int64_t outputs_of_model(const Training& training, const config::ModelConfig& wanted) {
  return wanted.num_classes != 0 ? wanted.num_classes : training.data.datasets.num_classes;
}

using NamedParameters = torch::OrderedDict<std::string, at::Tensor>;

/// Returns the parameters whose names begin with `layer`, which ends where a part of a name does: layer1 is not
/// layer10. Error (Usage): there are none; `after`: what follows a layer in the value of `setting`.
Result<NamedParameters> parameters_of(const torch::nn::Module& model, const std::string& layer,
                                      const std::string& setting, const std::string& after = "") {
  NamedParameters found;
  for (const auto& parameter : model.named_parameters()) {
    const std::string& name = parameter.key();
    if (name.starts_with(layer) && (name.size() == layer.size() || name[layer.size()] == '.')) {
      found.insert(name, parameter.value());
    }
  }
  if (!found.is_empty()) {
    return found;
  }
  std::vector<std::string> children;
  std::ranges::transform(model.named_children(), std::back_inserter(children),
                         [](const auto& child) { return child.key(); });
  return fail(setting, layer, "no parameter's name begins so",
              setting + "=" + nearest(layer, children).value_or("layer1") + after);
}

bool any_is_trained(const NamedParameters& parameters) {
  return std::ranges::any_of(parameters, [](const auto& parameter) { return parameter.value().requires_grad(); });
}

/// Implements --freeze.
Result<void> freeze(torch::nn::Module& model, const std::vector<std::string>& layers) {
  for (const std::string& layer : layers) {
    ASSIGN_OR_RETURN(NamedParameters parameters, parameters_of(model, layer, "--freeze"));
    for (auto& parameter : parameters) {
      parameter.value().requires_grad_(false);
    }
  }
  return any_is_trained(model.named_parameters()) ? Result<void>()
                                                  : fail("--freeze", fmt::format("{}", fmt::join(layers, ",")),
                                                         "leaves nothing to train", "leaving some out");
}

/// Returns the factors of --lr-factors by parameter. Longer names of layers have precedence.
Result<std::map<std::string, double>> rate_factors_of(const torch::nn::Module& model,
                                                      std::vector<config::RateFactor> wanted) {
  std::ranges::sort(wanted, {}, [](const config::RateFactor& one) { return one.layer.size(); });
  std::map<std::string, double> factors;
  for (const auto& [layer, factor] : wanted) {
    ASSIGN_OR_RETURN(const NamedParameters parameters,
                     parameters_of(model, layer, "--lr-factors", fmt::format("={}", factor)));
    if (!any_is_trained(parameters)) {
      return fail("--lr-factors", layer, "is not trained because of --freeze", "leaving it out of one of them");
    }
    for (const auto& parameter : parameters) {
      factors[parameter.key()] = factor;
    }
  }
  return factors;
}

Result<void> build_model(Training& training, const config::TrainConfig& config, const device::Device& device) {
  const config::ModelConfig& wanted = config.model;
  const auto classes = static_cast<std::int64_t>(training.data.datasets.class_names.size());
  if (wanted.num_classes != 0 && wanted.num_classes < classes) {
    return fail("--num-classes", std::to_string(wanted.num_classes),
                fmt::format("the data has {}", counted(classes, "class", "classes")), "leaving it out");
  }
  if (wanted.num_classes > classes && config.data.datasets.several_labels) {  // a label is a row of the data's classes
    return fail(
        "--num-classes", std::to_string(wanted.num_classes),
        fmt::format("the data has {}, and --loss=multi-label allows no more", counted(classes, "class", "classes")),
        "leaving it out, or naming all classes with --class-names");
  }
  device.seed(config.run.seed);
  ASSIGN_OR_RETURN(training.model, make_model(config, outputs_of_model(training, wanted)));
  RETURN_IF_ERROR(freeze(*training.model, wanted.frozen));
  device.place(*training.model);
  if (wanted.memory_format == at::MemoryFormat::ChannelsLast) {
    model::use_channels_last(*training.model);
  }
  return {};
}

/// Returns the options for a step's whole batch, by one of the two scaling rules. Accumulated batches count like ranks,
/// so that a training is the same on more ranks with less accumulation.
Result<optim::OptimizerOptions> scaled_options(const config::TrainConfig& config, const JobContext& context) {
  optim::OptimizerOptions options = config.optim.optimizer;
  const auto batches = static_cast<std::uint32_t>(virtual_ranks(config, context).all * config.grad_accumulation());
  if (config.optim.scale_optim_params) {
    return optim::scale_optim_params(options, batches);
  }
  options.learning_rate = optim::scaled_learning_rate(options.learning_rate, config.optim.scaling, batches);
  return options;
}

optim::ScheduleOptions make_schedule(const config::TrainConfig& config, double learning_rate,
                                     std::int64_t steps_per_epoch) {
  const auto steps = [&](double epochs) {
    return static_cast<std::int64_t>(std::llround(epochs * static_cast<double>(steps_per_epoch)));
  };
  optim::ScheduleOptions schedule;
  schedule.learning_rate = learning_rate;
  schedule.kind = config.optim.schedule;
  schedule.warmup_steps = steps(config.optim.warmup_epochs);
  schedule.warmup_start_factor = config.optim.warmup_start_factor;
  schedule.end_factor = config.optim.end_factor;
  schedule.power = config.optim.power;
  schedule.steps_per_drop = std::max<std::int64_t>(1, steps(config.optim.epochs_per_drop));
  std::ranges::transform(config.optim.milestones, std::back_inserter(schedule.milestones), steps);
  schedule.drop_factor = config.optim.drop_factor;
  schedule.total_steps = config.run.epochs * steps_per_epoch;
  if (config.run.max_steps > 0) {
    schedule.total_steps = std::min(schedule.total_steps, config.run.max_steps);
  }
  return schedule;
}

/// Warns of epochs of the schedule that have no effect. A run that --max-steps ends may be a trial of a longer one.
void warn_of_schedule(const config::OptimConfig& wanted, const optim::ScheduleOptions& schedule, std::int64_t epochs,
                      std::vector<std::string>& warnings) {
  if (wanted.warmup_epochs > 0 && (schedule.warmup_steps == 0 || schedule.warmup_steps >= schedule.total_steps)) {
    warnings.push_back(fmt::format("--warmup-epochs: {}: {}", wanted.warmup_epochs,
                                   schedule.warmup_steps == 0 ? "is less than a step, so there is no warm-up"
                                                              : "the training ends before its warm-up does"));
  }
  const bool drops = schedule.kind == optim::ScheduleKind::Milestones;
  if (drops && !schedule.milestones.empty() && schedule.milestones.back() >= schedule.total_steps) {
    warnings.push_back(fmt::format("--lr-milestones: {}: is not before the end of the training, after {}",
                                   wanted.milestones.back(), counted(epochs, "epoch")));
  }
}

/// Warns if --elastic-exact is slower than necessary.
void warn_of_shares(const config::TrainConfig& config, const JobContext& context, std::vector<std::string>& warnings) {
  const std::int64_t all = config.parallel.replica.exact.virtual_ranks;
  if (all == 0) {
    return;
  }
  const std::int64_t most = (all + context.world_size - 1) / context.world_size;
  const std::int64_t as_fast = (all + most - 1) / most;
  if (as_fast < context.world_size) {
    warnings.push_back(
        fmt::format("--elastic-exact: {}: each of {} ranks computes up to {}, so steps take as long as with {}; "
                    "try using a number of ranks that divides it",
                    all, context.world_size, counted(most, "virtual rank"), counted(as_fast, "rank")));
  }
  const std::uint32_t idle = context.share.cpus - std::min(context.share.cpus, context.share.compute_cpus + 1);
  if (idle > context.share.compute_cpus) {
    warnings.push_back(
        fmt::format("--elastic-exact-threads: {}: each rank has {}; try raising it in a new "
                    "training",
                    context.share.compute_cpus, counted(context.share.cpus, "CPU")));
  }
}

}  // namespace

Result<model::Model> make_model(const config::TrainConfig& config, std::int64_t outputs) {
  const config::ModelConfig& wanted = config.model;
  if (!wanted.script.empty()) {
    const data::DataOptions& images = config.data.datasets;
    return model::load_script(
        wanted.script, {.num_classes = outputs, .image_sizes = {images.image_size, data::valid_image_size(images)}});
  }
  model::ResNetOptions options = wanted.resnet;
  options.num_classes = outputs;
  ASSIGN_OR_RETURN(const model::ResNet made, model::make_model(wanted.name, options));
  return model::Model(made.ptr());
}

Result<Training> make_training(const config::TrainConfig& config, const JobContext& context, Prepared ready) {
  Training training;
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(data::Datasets datasets,
                   open_shared_data(config.data, context, warnings, std::move(ready.datasets)));
  ASSIGN_OR_RETURN(DataPipeline data,
                   make_data_pipeline(std::move(datasets), config.data, context, virtual_ranks(config, context),
                                      config.model.compute_type.value_or(at::kFloat)));
  training.data = std::move(data);
  training.data.warnings.insert(training.data.warnings.end(), warnings.begin(), warnings.end());
  warn_of_shares(config, context, training.data.warnings);
  RETURN_IF_ERROR(precision::check_operators(config.model.compute_type, context.device));
  training.loss_scaler = precision::LossScaler(config.model.compute_type == at::kHalf);
  training.model = std::move(ready.model);
  RETURN_IF_ERROR(!training.model ? build_model(training, config, context.device) : Result<void>());
  model::use_kernels(*training.model, context.device.kernels(), context.device.kernel_parts());
  ASSIGN_OR_RETURN(
      const std::vector<float> weights,
      class_weights(config.optim.loss.class_weights, training.data.datasets, outputs_of_model(training, config.model)));
  if (!weights.empty()) {
    training.class_weights = torch::tensor(weights).to(context.device.device());
  }
  return training;
}

Result<void> add_replica(Training& training, const config::TrainConfig& config, const JobContext& context, bool filled,
                         std::vector<std::int64_t> gradient_order) {
  if (config.parallel.sync_batch_norms) {
    parallel::synchronise_batch_norms(*training.model, context.process_group);
  }
  parallel::ReplicaOptions options = config.parallel.replica;
  options.data_parallel.broadcast_at_first = !filled;
  options.data_parallel.gradient_order = std::move(gradient_order);
  options.data_parallel.kernels = context.device.kernels();
  options.exact.broadcast_at_first = !filled;
  options.exact.accumulation = config.grad_accumulation();
  ASSIGN_OR_RETURN(auto made,
                   parallel::make_replica(training.model, options,
                                          {context.process_group, context.group_store, context.group_options}));
  training.replica = std::move(made);
  return {};
}

Result<void> add_optimizer(Training& training, const config::TrainConfig& config, const JobContext& context) {
  ASSIGN_OR_RETURN(optim::OptimizerOptions options, scaled_options(config, context));
  ASSIGN_OR_RETURN(options.rate_factors, rate_factors_of(*training.model, config.optim.rate_factors));
  if (training.replica->is_sharded()) {
    options.add_up = [replica = training.replica.get()](at::Tensor& sums) { replica->add_over_shards(sums); };
  }
  ASSIGN_OR_RETURN(auto made, optim::make_optimizer(options, training.replica->named_parameters()));
  training.optimizer = std::move(made);
  training.rate_factors = optim::rate_factors_of_groups(options, training.replica->named_parameters());
  if (config.optim.ema_decay > 0) {
    training.average.emplace(training.replica->named_parameters(), training.model->named_buffers());
  }
  training.steps_of_epoch = training.data.train_sampler->steps();
  training.schedule = make_schedule(config, options.learning_rate, training.steps_of_epoch);
  if (config.run.max_steps == 0) {
    warn_of_schedule(config.optim, training.schedule, config.run.epochs, training.data.warnings);
  }
  return {};
}

std::vector<at::Tensor> statistics_of(const torch::nn::Module& model,
                                      const std::optional<optim::WeightAverage>& average) {
  std::vector<at::Tensor> statistics = model.buffers();
  if (average) {
    const std::vector<at::Tensor> averaged = average->buffers().values();
    statistics.insert(statistics.end(), averaged.begin(), averaged.end());
  }
  return statistics;
}

Result<void> warm_up(Training& training, const config::TrainConfig& config, const JobContext& context) {
  // Each rank needs several values per channel in every BatchNorm, so two images in case they shrink to one pixel.
  constexpr std::int64_t kSmallest = 32;
  const std::int64_t asked = config.data.datasets.image_size;
  const std::int64_t size = config.model.script.empty() ? std::min<std::int64_t>(kSmallest, asked) : asked;
  const at::Tensor images = torch::zeros({2, 3, size, size}, context.device.options());
  const at::Tensor labels = torch::zeros({2}, context.device.options().dtype(at::kLong));
  training.model->train();
  const device::WithoutSearch quickly;
  return training.replica->warm_up(
      [&] { return torch::nn::functional::cross_entropy(outputs_of(training, config, context, images), labels); });
}

Result<Prepared> prepare_standby(const config::TrainConfig& config) {
  const JobContext alone;
  ASSIGN_OR_RETURN(Training training, make_training(config, alone));
  const model::Model model = training.model;
  const std::vector<at::Tensor> buffers = parallel::copies_of(model->buffers());
  model->train();
  const std::int64_t size = config.data.datasets.image_size;
  const at::Tensor images =
      torch::zeros({config.batch_size(), 3, size, size}, alone.device.options()).contiguous(config.model.memory_format);
  const at::Tensor labels = torch::zeros({config.batch_size()}, alone.device.options().dtype(at::kLong));
  {
    const precision::Autocast autocast(config.model.compute_type, alone.device.type());
    torch::nn::functional::cross_entropy(model->forward(images).to(at::kFloat), labels).backward();
  }
  parallel::copy_values(model->buffers(), buffers);
  for (at::Tensor& parameter : model->parameters()) {
    parameter.mutable_grad().reset();
  }
  return Prepared{.model = model, .datasets = std::move(training.data.datasets)};
}

at::Tensor outputs_of(Training& training, const config::TrainConfig& config, const JobContext& context,
                      const at::Tensor& images, const at::Tensor& kept) {
  return outputs_of(*training.model, training.replica->input_type(), config.model, context.device, images, kept);
}

at::Tensor outputs_of(model::ImageClassifier& model, at::ScalarType input_type, const config::ModelConfig& config,
                      const device::Device& device, const at::Tensor& images, const at::Tensor& kept) {
  const precision::Autocast autocast(config.compute_type, device.type());
  // A channels-last image would make everything computed from it channels-last, whatever the weights' format.
  const bool is_computed_in = images.scalar_type() == config.compute_type;
  const at::Tensor input = (is_computed_in ? images : images.to(input_type)).contiguous(config.memory_format);
  return model.forward(input, kept).to(at::kFloat);
}

}  // namespace rollcall::train
