#include "trainer/train/dry_run.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/base/text.h"
#include "runtime/job/job_facts.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/global_batch.h"
#include "trainer/config/named_files.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/train/equal_settings.h"
#include "trainer/train/object_collectives.h"
#include "trainer/train/process.h"
#include "trainer/train/step/trial.h"

namespace rollcall::train {
namespace {

using metrics::human_bytes;
using metrics::human_duration;

/// Prints "DONE rank R" at once: a benchmark of the start takes the time at which the line arrives.
void say_done(const JobContext& context) {
  std::string line = fmt::format("DONE rank {}\n", context.rank);
  if (context.rank == 0) {
    line += fmt::format("{} of {} on {}, rendezvous {}, backend {}\n", context.world_size,
                        counted(context.world_size, "rank"), counted(context.num_nodes, "node"), context.rendezvous,
                        context.backend);
  }
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

/// Returns the free space of the file system where `folder` is or will be; nothing if it is unknown.
std::optional<std::uint64_t> free_space(std::filesystem::path folder) {
  std::error_code error;
  folder = std::filesystem::absolute(folder, error);
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  return error ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

/// The most checkpoints that are there at the same time: those that are kept, and the one that is being written.
std::uint64_t checkpoints_at_once(const config::CheckpointConfig& config, std::int64_t steps) {
  const std::int64_t every = config.retention.keep_every;
  return static_cast<std::uint64_t>(config.retention.keep_last + (every > 0 ? steps / every : 0)) + config.keep_best +
         1;
}

/// Error: not even one checkpoint fits. Rank 0 writes them.
Result<void> check_space(const config::TrainConfig& config, const JobContext& context, const TrialResult& trial) {
  const std::string& folder = config.checkpoint.load.folder;
  const auto space = context.rank == 0 ? free_space(folder) : std::nullopt;
  if (!space || *space >= trial.checkpoint_bytes) {
    return {};
  }
  return fail("--checkpoint-dir", folder,
              fmt::format("has {} of free space, but a checkpoint takes {}", human_bytes(*space),
                          human_bytes(trial.checkpoint_bytes)),
              "naming a folder on another file system", ErrorKind::InputOutput);
}

/// Error: this rank cannot open the checkpoint that --resume names.
Result<void> check_resume(const std::string& resume) {
  if (resume != "auto" && resume != "never") {
    RETURN_IF_ERROR(checkpoint::open_named(resume));
  }
  return {};
}

/// What a trial says of the whole training, each with its name.
nlohmann::ordered_json estimate(const config::TrainConfig& config, const JobContext& context, const TrialResult& trial,
                                const Environment& environment) {
  const double seconds = trial.seconds * static_cast<double>(trial.total_steps);
  nlohmann::ordered_json found{
      {"training_images", trial.training_images},
      {"validation_images", trial.validation_images},
      {"classes", trial.classes},
      {"parameters", trial.parameters},
      {"measured_steps", trial.steps},
      {"step_seconds", trial.seconds},
      {"images_per_second", static_cast<double>(trial.images) / trial.seconds},
      {"steps", trial.total_steps},
      {"training_seconds", seconds},
      {"node_hours", seconds / 3600 * context.num_nodes},
      {"checkpoint_bytes", trial.checkpoint_bytes},
      {"checkpoints_at_once", checkpoints_at_once(config.checkpoint, trial.total_steps)},
  };
  const auto add = [&found](const char* name, const auto& value) {
    if (value) {
      found[name] = *value;
    }
  };
  add("free_bytes", free_space(config.checkpoint.load.folder));
  add("memory_bytes", trial.memory);
  add("memory_limit_bytes", trial.memory_limit);
  add("largest_batch_size", trial.largest_batch);
  if (trial.joules > 0) {
    found["energy_kwh"] = trial.joules / trial.seconds * seconds / 3.6e6;
  }
  const double now = wall_seconds_now();
  if (const std::optional<double> end = job::job_end_time(environment, now)) {
    found["job_seconds_left"] = *end - now;
  }
  return found;
}

std::string memory_line(const nlohmann::ordered_json& found) {
  std::string line = human_bytes(found["memory_bytes"]);
  if (found.contains("memory_limit_bytes")) {
    line += fmt::format(" of {} for each rank", human_bytes(found["memory_limit_bytes"]));
  }
  if (found.contains("largest_batch_size")) {
    line += fmt::format(", enough for a --batch-size of about {}", found["largest_batch_size"].get<std::int64_t>());
  }
  return line;
}

std::string time_line(const nlohmann::ordered_json& found) {
  const double seconds = found["training_seconds"];
  std::string line =
      fmt::format("{} for {}, {:.1f} node-hours, without validation", human_duration(seconds),
                  counted(found["steps"].get<std::int64_t>(), "step"), found["node_hours"].get<double>());
  if (found.contains("energy_kwh")) {
    line += fmt::format(", {:.1f} kWh", found["energy_kwh"].get<double>());
  }
  if (found.contains("job_seconds_left") && seconds > found["job_seconds_left"].get<double>()) {
    line +=
        fmt::format("; this job ends in {}, so it takes more than one job", human_duration(found["job_seconds_left"]));
  }
  return line;
}

std::string table(const nlohmann::ordered_json& found) {
  const auto count = [&found](const char* name) { return found[name].get<std::int64_t>(); };
  std::string text = fmt::format("data         {} training and {} validation images, {}\n", count("training_images"),
                                 count("validation_images"), counted(count("classes"), "class", "classes"));
  text += fmt::format("model        {:.1f} million parameters\n", found["parameters"].get<double>() / 1e6);
  text += fmt::format("step         {:.3f} s, {:.1f} images/s, from {}\n", found["step_seconds"].get<double>(),
                      found["images_per_second"].get<double>(), counted(count("measured_steps"), "step"));
  if (found.contains("memory_bytes")) {
    text += "memory       " + memory_line(found) + "\n";
  }
  text += fmt::format("checkpoints  {} each, at most {} at a time", human_bytes(found["checkpoint_bytes"]),
                      count("checkpoints_at_once"));
  if (found.contains("free_bytes")) {
    text += fmt::format(", {} free", human_bytes(found["free_bytes"]));
  }
  return text + "\ntraining     " + time_line(found) + "\n";
}

std::string rates_json(const std::vector<RangePoint>& points, const std::optional<double>& suggested) {
  nlohmann::ordered_json all{{"points", nlohmann::json::array()}, {"suggested_lr", nullptr}};
  for (const RangePoint& point : points) {
    all["points"].push_back({{"lr", point.learning_rate}, {"loss", point.loss}});
  }
  if (suggested) {
    all["suggested_lr"] = *suggested;
  }
  return all.dump();
}

/// Returns the configuration of a training in this world.
Result<config::TrainConfig> config_of(const SessionInput& input, const JobContext& context) {
  settings::Settings settings = input.options.trainer;
  RETURN_IF_ERROR(config::identify_files(settings, input.environment));
  RETURN_IF_ERROR(config::make_train_config(settings, input.environment));  // refuses what was given, by name
  RETURN_IF_ERROR(config::apply_global_batch(settings, context.world_size));
  return config::make_train_config(settings, input.environment);
}

}  // namespace

Result<void> first_collective(const JobContext& context, const config::Options& options, metrics::StartupTrace& trace) {
  at::Tensor ranks = torch::ones({1}, context.device.options());
  RETURN_IF_ERROR(process_group::all_reduce_sum(context.process_group, ranks));
  const Result<void> arrived =  // on a device, too
      process_group::guard_collective(context.process_group, [&] { (void)ranks.item<float>(); });
  if (const auto failure = process_group::device_failure(context.process_group); failure || !arrived) {
    return failure ? *failure : arrived.error();
  }
  trace.mark("first collective");
  if (options.trace_startup && context.rank == 0) {
    std::fputs((options.json ? trace.json() : trace.table()).c_str(), stdout);
    std::fflush(stdout);
  }
  return {};
}

Result<void> dry_run(const SessionInput& input, const JobContext& context) {
  const Result<config::TrainConfig> config = config_of(input, context);
  RETURN_IF_ERROR(everywhere(context.process_group, config));
  RETURN_IF_ERROR(
      everywhere(context.process_group, confirm_equal_settings(context, input.options.trainer, config->json)));
  if (!config->data.given.empty()) {
    RETURN_IF_ERROR(everywhere(context.process_group, check_resume(config->checkpoint.load.resume)));
    ASSIGN_OR_RETURN(const TrialResult trial, run_trial(*config, context));
    RETURN_IF_ERROR(everywhere(context.process_group, check_space(*config, context, trial)));
    if (context.rank == 0) {
      const nlohmann::ordered_json found = estimate(*config, context, trial, input.environment);
      std::fputs((input.options.json ? found.dump() + "\n" : table(found)).c_str(), stdout);
    }
  }
  say_done(context);
  return {};
}

Result<void> find_learning_rate(const SessionInput& input, const JobContext& context) {
  const Result<config::TrainConfig> config = config_of(input, context);
  RETURN_IF_ERROR(everywhere(context.process_group, config));
  RETURN_IF_ERROR(
      everywhere(context.process_group, confirm_equal_settings(context, input.options.trainer, config->json)));
  if (config->model.compute_type == at::kHalf) {
    return fail("--find-lr", "", "does not scale the loss, which --precision=fp16 needs",
                "--precision=bf16 for this test");
  }
  const bool prints = context.rank == 0;
  std::vector<RangePoint> points;
  const auto tested = [&](const RangePoint& point) {
    points.push_back(point);
    if (prints && !input.options.json && points.size() % 5 == 0) {
      fmt::print("--lr={:<8.1e}  loss {:.4f}\n", point.learning_rate, point.loss);
      std::fflush(stdout);
    }
  };
  RETURN_IF_ERROR(test_learning_rates(*config, context, tested));
  if (prints) {
    const std::optional<double> found = suggested_learning_rate(points);
    const std::string said = found ? fmt::format("The loss falls fastest with --lr={:.1e}.", *found)
                                   : "The loss hardly falls with any of these rates.";
    fmt::print("{}\n", input.options.json ? rates_json(points, found) : said);
    std::fflush(stdout);
  }
  return {};
}

}  // namespace rollcall::train
