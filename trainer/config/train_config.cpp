#include "trainer/config/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/settings/values.h"
#include "trainer/checkpoint/background/commit.h"
#include "trainer/config/named_files.h"
#include "trainer/config/own_kernels.h"
#include "trainer/precision/autocast.h"

namespace rollcall::config {
namespace {

using settings::Settings;

model::Initialisation initialisation(const std::string& name) {
  return name == "goyal"    ? model::Initialisation::Goyal
         : name == "fan-in" ? model::Initialisation::FanIn
                            : model::Initialisation::Torchvision;
}

ModelConfig model_config(const Settings& settings, std::string script) {
  return {.name = std::string(without_checksum(settings.text("model"))),
          .script = std::move(script),
          .num_classes = settings.integer("num-classes"),
          .resnet = {.deep_stem = settings.text("resnet-stem") == "deep",
                     .blur_pool = settings.on("blurpool"),
                     .initialisation = initialisation(settings.text("init")),
                     .zero_init_residual = settings.on("zero-init-residual"),
                     .stochastic_depth = settings.number("stochastic-depth"),
                     .dropout = settings.number("dropout")},
          .frozen = settings.list("freeze"),
          .memory_format = settings.on("channels-last") ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous,
          .compute_type = precision::compute_type(settings.text("precision"))};
}

/// Returns the epochs of --lr-milestones in ascending order.
Result<std::vector<double>> milestones_of(const Settings& settings) {
  std::vector<double> epochs;
  for (const std::string& text : settings.list("lr-milestones")) {
    const std::optional<double> epoch = settings::parse_number(text);
    if (!epoch || *epoch <= 0 || (!epochs.empty() && *epoch <= epochs.back())) {
      return fail("--lr-milestones", settings.text("lr-milestones"), "must be numbers of epochs in ascending order",
                  "--lr-milestones=30,60,80");
    }
    epochs.push_back(*epoch);
  }
  return epochs;
}

/// Returns the factors of --lr-factors.
Result<std::vector<RateFactor>> rate_factors_of(const Settings& settings) {
  std::vector<RateFactor> factors;
  for (const std::string& text : settings.list("lr-factors")) {
    const std::size_t equals = std::min(text.rfind('='), text.size());
    std::string layer = text.substr(0, equals);
    const std::optional<double> factor = settings::parse_number(text.substr(std::min(equals + 1, text.size())));
    const auto of_device = static_cast<float>(factor.value_or(0));
    if (layer.empty() || !std::isfinite(of_device) || of_device <= 0) {
      return fail("--lr-factors", text, "must be LAYER=FACTOR with a finite factor above 0",
                  factor == 0.0 ? "--freeze=" + layer : "--lr-factors=layer3=0.1,layer4=0.3");
    }
    if (std::ranges::find(factors, layer, &RateFactor::layer) != factors.end()) {
      return fail("--lr-factors", text, "is the second factor for " + layer, "removing one of them");
    }
    factors.push_back({std::move(layer), *factor});
  }
  return factors;
}

Result<OptimConfig> optim_config(const Settings& settings) {
  OptimConfig config;
  config.optimizer.name = settings.text("optimizer");
  config.optimizer.learning_rate = settings.number("lr");
  config.optimizer.weight_decay = settings.number("weight-decay");
  config.optimizer.decay_all = settings.on("weight-decay-all");
  config.optimizer.momentum = settings.number("momentum");
  config.optimizer.nesterov = settings.on("nesterov");
  config.optimizer.beta1 = settings.number("adam-beta1");
  config.optimizer.beta2 = settings.number("adam-beta2");
  config.optimizer.eps = settings.number("adam-eps");
  config.optimizer.alpha = settings.number("rmsprop-alpha");
  config.optimizer.trust = settings.number("lars-trust");
  const Result<optim::LearningRateScaling> scaling = optim::parse_learning_rate_scaling(settings.text("lr-scaling"));
  const Result<optim::ScheduleKind> schedule = optim::parse_schedule(settings.text("lr-schedule"));
  if (!scaling || !schedule) {
    return scaling ? schedule.error() : scaling.error();
  }
  config.scaling = *scaling;
  config.scale_optim_params = settings.on("scale-optim-params");
  ASSIGN_OR_RETURN(config.rate_factors, rate_factors_of(settings));
  config.schedule = *schedule;
  config.warmup_epochs = settings.number("warmup-epochs");
  config.warmup_start_factor = settings.number("warmup-start-factor");
  config.end_factor = settings.number("lr-end-factor");
  config.power = settings.number("lr-power");
  config.epochs_per_drop = settings.number("lr-step-epochs");
  ASSIGN_OR_RETURN(std::vector<double> milestones, milestones_of(settings));
  config.milestones = std::move(milestones);
  config.drop_factor = settings.number("lr-step-factor");
  config.clip_grad_norm = settings.number("clip-grad-norm");
  config.ema_decay = settings.number("ema");
  config.ema_steps = settings.integer("ema-steps");
  config.loss = {.binary = settings.text("loss") != "cross-entropy",
                 .label_smoothing = settings.number("label-smoothing"),
                 .target_threshold = settings.number("bce-target-threshold")};
  return config;
}

CheckpointConfig checkpoint_config(const Settings& settings) {
  using checkpoint::format::ReadBack;
  using checkpoint::format::VerifyLevel;
  CheckpointConfig config;
  config.accept_changes = settings.text("resume") == "continue-with-changes";
  config.load.resume = config.accept_changes ? "auto" : settings.text("resume");
  config.lease_timeout = settings.number("lease-timeout");
  config.load.verify = settings.text("verify") == "full" ? VerifyLevel::Full : VerifyLevel::Metadata;
  config.init_from = settings.text("init-from");
  config.every_epochs = settings.integer("checkpoint-epochs");
  config.every_steps = settings.integer("checkpoint-steps");
  config.retention.keep_last = settings.integer("keep-last");
  config.retention.keep_every = settings.integer("keep-every");
  config.keep_best = static_cast<std::size_t>(settings.integer("keep-best"));
  config.background = settings.text("checkpoint-mode") == "async";
  config.skip_while_saving = settings.text("checkpoint-overlap") == "skip";
  config.read_back = settings.text("checkpoint-read-back") == "device" ? ReadBack::Device : ReadBack::Memory;
  config.retries = settings.integer("checkpoint-retries");
  config.most_failures = settings.integer("checkpoint-failures");
  config.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(settings.number("checkpoint-timeout") * 1000));
  config.save_before_limit = settings.number("save-before-limit");
  config.save_before_limit_given = settings.text("save-before-limit");
  return config;
}

metrics::ProgressStyle progress_style(const std::string& name) {
  if (name == "bar") {
    return metrics::ProgressStyle::Bar;
  }
  if (name == "lines") {
    return metrics::ProgressStyle::Lines;
  }
  return name == "none" ? metrics::ProgressStyle::None : metrics::ProgressStyle::Auto;
}

/// Reads "100-104" or "100".
Result<std::optional<StepRange>> trace_steps(const std::string& text) {
  constexpr std::int64_t kMostSteps = 1000;  // the file would be too large to open
  if (text.empty()) {
    return std::optional<StepRange>();
  }
  const std::size_t dash = text.find('-');
  const auto first = parse_integer<std::int64_t>(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse_integer<std::int64_t>(text.substr(dash + 1));
  if (!first || !last || *first < 1 || *last < *first || *last - *first >= kMostSteps) {
    return fail("--trace-steps", text, "is not a range of at most 1000 steps, counted from 1", "--trace-steps=100-104");
  }
  return std::optional(StepRange{*first, *last});
}

RunConfig run_config(const Settings& settings) {
  return {.epochs = settings.integer("epochs"),
          .max_steps = settings.integer("max-steps"),
          .max_bad_samples = settings.number("max-bad-samples"),
          .max_skipped_steps = settings.integer("max-skipped-steps"),
          .early_stopping = settings.integer("early-stopping"),
          .valid_epochs = settings.integer("valid-epochs"),
          .valid_flip = settings.on("valid-flip"),
          .seed = seed_of(settings),
          .folder = {},
          .progress = progress_style(settings.text("progress")),
          .log_steps = settings.integer("log-steps"),
          .rank_seconds =
              settings.text("rank-seconds") == "auto" ? std::nullopt : std::optional(settings.number("rank-seconds")),
          .report = settings.on("report"),
          .tensorboard = settings.on("tensorboard"),
          .histogram_steps = settings.integer("tensorboard-histograms")};
}

/// Returns the run's name as one part of a path, without blanks.
std::string folder_name(const Settings& settings, const Environment& environment) {
  const std::string& given = settings.text("run-name");
  std::string name = given.empty() ? environment.get_non_empty("SLURM_JOB_NAME").value_or("run") : given;
  if (const auto element = environment.get_non_empty(env::kSlurmArrayTaskId); element && given.empty()) {
    name += "-" + *element;
  }
  for (char& c : name) {
    if (c == '/' || static_cast<unsigned char>(c) <= ' ') {
      c = '_';
    }
  }
  return name == "." || name == ".." ? "run" : name;
}

Result<void> choose_folders(TrainConfig& config, const Settings& settings, const Environment& environment) {
  const std::string& name = settings.text("run-name");
  const std::string folder_of_run = folder_name(settings, environment);
  if (!name.empty() && folder_of_run != name) {
    return fail("--run-name", name, "cannot be the name of a folder", "--run-name=" + folder_of_run);
  }
  const bool named = !settings.text("checkpoint-dir").empty();
  ASSIGN_OR_RETURN(const std::string scratch,
                   named ? Result<std::string>(std::string()) : scratch_of(environment, "--checkpoint-dir"));
  const std::string base = (scratch.empty() ? "." : scratch) + "/rollcall/" + folder_of_run;
  const auto chosen = [&](const char* setting, const std::string& otherwise) -> Result<std::string> {
    const std::string& text = settings.text(setting);
    return text.empty() ? Result<std::string>(otherwise) : settings::expand_path(text, environment, setting);
  };
  ASSIGN_OR_RETURN(std::string checkpoints, chosen("checkpoint-dir", base + "/checkpoints"));
  std::string& folder = config.checkpoint.load.folder;
  folder = std::move(checkpoints);
  ASSIGN_OR_RETURN(const std::string stage, chosen("checkpoint-stage", ""));
  config.checkpoint.stage = stage.empty() ? "" : checkpoint::background::staging_folder(stage, folder);
  config.checkpoint.stage_given = settings.text("checkpoint-stage");
  ASSIGN_OR_RETURN(std::string run, chosen("run-dir", named ? folder : base));
  config.run.folder = std::move(run);
  const auto element = environment.get_non_empty(env::kSlurmArrayTaskId);
  if (element && !named && settings.text("run-name").empty()) {
    config.warnings.push_back("element " + *element + " of the job array is a training of its own, in " + folder +
                              "; to continue another element's training, give all of them --run-name=NAME");
  }
  if (scratch.empty() && !named) {
    config.warnings.push_back("SCRATCH is not set: checkpoints go to " + folder +
                              " below the current folder; set SCRATCH or --checkpoint-dir");
  }
  return {};
}

}  // namespace

ProcessGroupConfig make_process_group_config(const Settings& settings) {
  const auto kernels = own_kernels(settings);  // make_train_config() returns its error
  return {.alone = settings.text("parallel") == "none",
          .device = settings.text("device"),
          .arithmetic = {.tf32 = settings.on("tf32"),
                         .deterministic = settings.on("deterministic"),
                         .own_kernels = kernels ? *kernels : std::nullopt},
          .backend = settings.text("backend"),
          .collective_timeout =
              std::chrono::milliseconds(static_cast<std::int64_t>(settings.number("collective-timeout") * 1000))};
}

Result<TrainConfig> make_train_config(const Settings& settings, const Environment& environment, Use use) {
  RETURN_IF_ERROR(check_options_have_effect(settings, use));
  RETURN_IF_ERROR(own_kernels(settings));
  TrainConfig config;
  ASSIGN_OR_RETURN(std::string script, script_path(settings, environment));
  config.model = model_config(settings, std::move(script));
  config.checkpoint = checkpoint_config(settings);
  config.run = run_config(settings);
  ASSIGN_OR_RETURN(std::optional<StepRange> traced, trace_steps(settings.text("trace-steps")));
  config.run.trace_steps = traced;
  config.accumulation_given = !settings.is_default("grad-accumulation");
  config.json = settings::print_config(settings, true);
  RETURN_IF_ERROR(choose_folders(config, settings, environment));
  ASSIGN_OR_RETURN(config.checkpoint.evaluate,
                   settings::expand_path(settings.text("evaluate"), environment, "--evaluate"));
  ASSIGN_OR_RETURN(DataConfig data, make_data_config(settings, environment));
  config.data = std::move(data);
  ASSIGN_OR_RETURN(ParallelConfig parallel, make_parallel_config(settings));
  config.parallel = std::move(parallel);
  ASSIGN_OR_RETURN(const OptimConfig optim, optim_config(settings));
  config.optim = optim;
  ASSIGN_OR_RETURN(std::string class_weights, settings::expand_path(without_checksum(settings.text("class-weights")),
                                                                    environment, "--class-weights"));
  config.optim.loss.class_weights = std::move(class_weights);
  return config;
}

}  // namespace rollcall::config
