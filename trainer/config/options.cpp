#include "trainer/config/options.h"

#include <fmt/format.h>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/command_line/command_line.h"
#include "runtime/command_line/help.h"
#include "runtime/job/slurm_files.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"
#include "trainer/config/recipe.h"
#include "trainer/config/sweep.h"

namespace rollcall::config {
namespace {

constexpr std::array kFlags{
    command_line::kHelp,
    command_line::kVersion,
    command_line::Flag{"print-config", 0, "Show every setting with its value and where that comes from"},
    command_line::Flag{
        "json", 0, "With --print-config, --version, --benchmark-data, --dry-run, --find-lr, --trace-startup: as JSON"},
    command_line::Flag{"recipe-list", 0, "Show the recipes of this installation"},
    command_line::Flag{"benchmark-data", 0, "Measure how fast the training data can be read, without training"},
    command_line::Flag{"dry-run", 0, "Check what the training needs, and show its memory, space and time"},
    command_line::Flag{"find-lr", 0, "Measure with which learning rates the loss falls"},
    command_line::Flag{"trace-startup", 0, "Show how long each stage of rank 0's start took"},
    command_line::Flag{"print-settings-markdown", 0, ""},  // for docs/reference/settings.md
};

constexpr std::string_view kUsage = R"(usage: rollcall-train [OPTION...]

Trains a ResNet on all ranks of this Slurm step, or evaluates one (--evaluate). The same command continues a training.

  srun --ddp rollcall-train --data=fake                      synthetic images, to test the installation
  srun --ddp rollcall-train --data=$SCRATCH/imagenet --recipe=torchvision-v1
  sbatch run.sbatch --data=$SCRATCH/imagenet                 requeued at the time limit (share/rollcall/sbatch_templates)
  rollcall-train --benchmark-data --data=$SCRATCH/imagenet   how fast the data can be read

Each option is also a variable (--batch-size is ROLLCALL_BATCH_SIZE) and a key of table [trainer] in a TOML file.
)";

Request request_of(const command_line::ParsedCommandLine& parsed) {
  struct Named {
    std::string_view flag;
    Request request;
  };
  constexpr std::array requests{Named{"help", Request::Help},
                                Named{"version", Request::Version},
                                Named{"print-settings-markdown", Request::PrintSettingsMarkdown},
                                Named{"recipe-list", Request::RecipeList},
                                Named{"print-config", Request::PrintConfig},
                                Named{"dry-run", Request::DryRun},
                                Named{"find-lr", Request::FindLr},
                                Named{"benchmark-data", Request::BenchmarkData}};
  for (const Named& named : requests) {
    if (parsed.has(named.flag)) {
      return named.request;
    }
  }
  return Request::Train;
}

Result<std::string> help_text(const std::string& topic) {
  return command_line::help_text({.name = "rollcall-train",
                                  .text = std::string(kUsage),
                                  .flags = {kFlags.begin(), kFlags.end()},
                                  .tables = {trainer_table()},
                                  .takes_launch_settings = true},
                                 topic);
}

/// Sets what the user did not to values with which the optimizer trains well: those of arXiv 1706.02677 for SGD, and
/// for LARS the rate of MLPerf's reference for 3264 images.
Result<void> apply_defaults_of_optimizer(settings::Settings& settings) {
  const std::string optimizer = settings.text("optimizer");
  const std::int64_t given = settings.integer("global-batch");
  const auto images = static_cast<double>(given > 0 ? given : settings.integer("batch-size"));
  std::vector<std::pair<std::string_view, std::string>> values;
  if (optimizer == "sgd") {
    values = {{"lr", fmt::format("{}", 0.1 * images / 256)}, {"lr-schedule", "cosine"}, {"weight-decay", "1e-4"}};
  } else if (optimizer == "lars") {
    values = {{"lr", fmt::format("{}", 0.8 * images / 256)}};
  }
  for (const auto& [name, value] : values) {
    if (settings.is_default(name)) {
      RETURN_IF_ERROR(settings.set(name, value, "default with --optimizer=" + optimizer));
    }
  }
  return {};
}

Result<void> confirm_data_given(const settings::Settings& settings, Request request) {
  const bool reads = request == Request::Train || request == Request::BenchmarkData || request == Request::FindLr;
  const bool evaluates = !settings.text("evaluate").empty();  // whose file may name the data
  if (evaluates && request == Request::DryRun) {
    return fail("--dry-run", "", "has no effect with --evaluate", "leaving one of them out");
  }
  return !reads || evaluates || !settings.text("data").empty()
             ? Result<void>()
             : fail("--data", "", "is not given", "--data=DIR, or --data=fake for synthetic images");
}

}  // namespace

Result<Options> read_options(const Environment& environment, const std::vector<std::string>& arguments) {
  const std::array<settings::Table, 1> launch_only{settings::launch_table()};
  const std::array<settings::Table, 1> trainer_only{trainer_table()};
  const settings::PluginProfile profile = job::profile_of_plugin(environment);
  ASSIGN_OR_RETURN(
      settings::Settings trainer,
      settings::load_settings(trainer_table(), environment,
                              {.site = profile, .section = settings::kTrainerSection, .other_tables = launch_only}));
  ASSIGN_OR_RETURN(settings::Settings launch,
                   settings::load_settings(settings::launch_table(), environment,
                                           {.site = profile, .section = {}, .other_tables = trainer_only}));
  launch.set_site_doubt(profile.doubt);
  const std::array targets{&trainer, &launch};
  ASSIGN_OR_RETURN(const auto parsed, command_line::parse_command_line(targets, kFlags, arguments));
  if (!parsed.positional.empty() || !parsed.program.empty()) {
    const std::string& extra = parsed.positional.empty() ? parsed.program.front() : parsed.positional.front();
    return fail("command line", extra, "is not an option", "rollcall-train --help");
  }
  const Request request = request_of(parsed);
  if (request != Request::Help && request != Request::Version && request != Request::RecipeList) {
    RETURN_IF_ERROR(apply_sweep(trainer, environment));
    RETURN_IF_ERROR(apply_recipe(trainer));
    RETURN_IF_ERROR(apply_defaults_of_optimizer(trainer));
    RETURN_IF_ERROR(confirm_data_given(trainer, request));
  }
  ASSIGN_OR_RETURN(std::string text, request == Request::Help         ? help_text(parsed.help_topic)
                                     : request == Request::RecipeList ? recipe_list()
                                                                      : Result(std::string()));
  return Options{.request = request,
                 .text = std::move(text),
                 .json = parsed.has("json"),
                 .trace_startup = parsed.has("trace-startup"),
                 .trainer = std::move(trainer),
                 .launch = std::move(launch)};
}

}  // namespace rollcall::config
