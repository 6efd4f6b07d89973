#include "trainer/train/observer/run_facts.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "trainer/torch.h"
#include "trainer/train/resume/lost_checkpoints.h"

namespace rollcall::train {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kNotShown = "(not shown)";

metrics::RawJson raw(const OrderedJson& json) {
  return {json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)};
}

/// Returns whether a value should not be in a file that others can read.
bool may_be_secret(std::string_view name) {
  constexpr std::array<std::string_view, 5> kParts{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"};
  return std::ranges::any_of(kParts, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

OrderedJson settings_of(const RunFacts& facts) {
  OrderedJson settings = OrderedJson::parse(facts.config.json, nullptr, false);
  OrderedJson launch = OrderedJson::parse(settings::print_config(facts.launch.given, true), nullptr, false);
  for (auto& [name, setting] : launch.items()) {
    if (name == "variables" && setting.is_object() && setting.value("value", "none") != "none") {
      setting["value"] = kNotShown;
    }
    settings[name] = setting;
  }
  return settings;
}

OrderedJson environment_of(const resolve::EnvPatch& patch) {
  constexpr std::array kActions{"set", "keep", "unset"};
  OrderedJson variables = OrderedJson::array();
  for (const resolve::EnvChange& change : patch.changes) {
    const bool hidden = may_be_secret(change.name) || change.origin.find("variables") != std::string::npos;
    variables.push_back({{"name", change.name},
                         {"value", hidden ? kNotShown : change.value},
                         {"action", kActions.at(static_cast<std::size_t>(change.action))},
                         {"origin", change.origin},
                         {"reason", hidden ? "" : change.reason}});
  }
  return variables;
}

/// Returns the end of the job in seconds since the epoch; null if Slurm does not report it.
OrderedJson end_of_job(const Environment& environment) {
  const auto end = parse_integer<std::int64_t>(environment.get(env::kSlurmJobEndTime).value_or(""));
  return end ? OrderedJson(*end) : OrderedJson();
}

/// Returns whether it is "--variables" or an option whose name looks like a secret.
bool has_secret_value(std::string option) {
  std::ranges::transform(option, option.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return option == "--VARIABLES" || may_be_secret(option);
}

}  // namespace

std::vector<std::string> shown_arguments(std::vector<std::string> arguments) {
  bool is_secret_value = false;
  for (std::string& argument : arguments) {
    if (std::exchange(is_secret_value, false)) {
      argument = kNotShown;
      continue;
    }
    const std::size_t equals = argument.find('=');
    const bool secret = argument.starts_with("--") && has_secret_value(argument.substr(0, equals));
    is_secret_value = secret && equals == std::string::npos;
    if (secret && equals != std::string::npos) {
      argument.replace(equals + 1, std::string::npos, kNotShown);
    }
  }
  return arguments;
}

metrics::Record begin_record(const RunFacts& facts) {
  const job::JobFacts& job = facts.step.facts;
  const JobContext& context = facts.context;
  const data::Datasets& datasets = facts.training.data.datasets;
  const auto whole = [](auto number) { return static_cast<std::int64_t>(number); };
  const std::vector<std::string> hosts = job.hosts.empty() ? std::vector<std::string>{context.host} : job.hosts;
  return {{"event", std::string("begin")},
          {"schema", kMetricsSchema},
          {"step", facts.progress.global_step},
          {"rollcall", std::string(ROLLCALL_VERSION)},
          {"libtorch", std::string(TORCH_VERSION)},
          {"job", facts.environment.get(env::kSlurmJobId).value_or("")},
          {"restart_count", restart_of(facts.environment).count},
          {"run", facts.environment.get(env::kRun).value_or("")},
          {"job_ends", raw(end_of_job(facts.environment))},
          {"ranks", whole(context.world_size)},
          {"nodes", whole(context.num_nodes)},
          {"hosts", raw(hosts)},
          {"ranks_of_hosts", raw(job.tasks_per_node)},
          {"cpus_of_rank", whole(context.share.cpus)},
          {"device", context.device.text()},
          {"backend", context.backend},
          {"rendezvous", context.rendezvous},
          {"model", facts.config.model.name},
          {"data", facts.config.data.given},
          {"checkpoint_folder", absolute_folder(facts.config.checkpoint.load.folder)},
          {"resolved_checkpoint_folder", resolved_folder(facts.config.checkpoint.load.folder)},
          {"classes", whole(datasets.class_names.size())},
          {"training_images", whole(datasets.train->size())},
          {"validation_images", whole(datasets.valid->size())},
          {"images_of_step", facts.progress.world_size * facts.progress.batch_size},
          {"steps_of_epoch", facts.training.data.train_sampler->steps()},
          {"epochs", facts.config.run.epochs},
          {"max_steps", facts.config.run.max_steps},
          {"command_line", raw(shown_arguments(facts.arguments))},
          {"warnings", raw(facts.warnings)},
          {"settings", raw(settings_of(facts))},
          {"environment", raw(environment_of(facts.step.patch))}};
}

std::vector<std::string> header_lines(const RunFacts& facts) {
  const JobContext& context = facts.context;
  const DataPipeline& data = facts.training.data;
  std::vector<std::string> lines{
      fmt::format("{} on {}: {} training and {} validation images, {}", facts.config.model.name,
                  facts.config.data.given, data.datasets.train->size(), data.datasets.valid->size(),
                  counted(data.datasets.class_names.size(), "class", "classes")),
      fmt::format(
          "{} on {}, {} a step, {} an epoch, device {}, backend {}, rendezvous {}", counted(context.world_size, "rank"),
          counted(context.num_nodes, "node"), counted(facts.progress.world_size * facts.progress.batch_size, "image"),
          counted(data.train_sampler->steps(), "step"), context.device.text(), context.backend, context.rendezvous),
      describe_loading(data, facts.config.data, context.share)};
  lines.insert(lines.end(), context.device_lines.begin(), context.device_lines.end());
  if (const auto times = facts.environment.get_non_empty(env::kSlurmRestartCount)) {
    lines.push_back(
        fmt::format("Slurm job {}, restart count {}", facts.environment.get(env::kSlurmJobId).value_or("?"), *times));
  }
  return lines;
}

}  // namespace rollcall::train
