#include "trainer/config/options.h"

#include <fmt/format.h>
#include <array>
#include <string_view>

#include "runtime/command_line/command_line.h"
#include "runtime/job/slurm_files.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"

namespace rollcall::config {
namespace {

constexpr std::array kFlags{
    command_line::Flag{"help", 'h', "show this text"},
    command_line::Flag{"version", 0, "show the version"},
    command_line::Flag{"print-config", 0, "show every setting with its value and origin, and end"},
    command_line::Flag{"json", 0, "with --print-config, --benchmark-data, --trace-startup: as one JSON object"},
    command_line::Flag{"benchmark-data", 0, "read the training data as training would, tell how fast, and end"},
    command_line::Flag{"dry-run", 0,
                       "check the settings, meet the other ranks, do one all-reduce, say how it went, and end"},
    command_line::Flag{"trace-startup", 0, "tell what each stage of rank 0's start cost, up to the first collective"},
    command_line::Flag{"print-settings-markdown", 0, "show the settings as docs/reference/settings.md does, and end"},
};

constexpr std::string_view kUsage = R"(usage: rollcall-train [OPTION...]

Trains a ResNet on all ranks of this Slurm step, or alone outside of one. An interrupted run goes on exactly where it stopped.

  srun --ddp rollcall-train                                           made-up images, to see that all works
  srun --ddp rollcall-train --data=$SCRATCH/imagenet --train-num-workers=8 --epochs=90 --optimizer=sgd --lr=0.1
  sbatch run.sbatch --data=$SCRATCH/imagenet --train-num-workers=8    the same, requeued when time is up
  rollcall-train --benchmark-data --data=$SCRATCH/imagenet --train-num-workers=4  how fast the data comes, without training
  rollcall-train --max-steps=20 --model=resnet18 --image-size=64      on this machine, alone

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
                                Named{"print-config", Request::PrintConfig},
                                Named{"dry-run", Request::DryRun},
                                Named{"benchmark-data", Request::BenchmarkData}};
  for (const Named& named : requests) {
    if (parsed.has(named.flag)) {
      return named.request;
    }
  }
  return Request::Train;
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
  launch.doubt_site(profile.doubt);
  const std::array targets{&trainer, &launch};
  ASSIGN_OR_RETURN(const auto parsed, command_line::parse_command_line(targets, kFlags, arguments));
  if (!parsed.positional.empty() || !parsed.program.empty()) {
    const std::string& extra = parsed.positional.empty() ? parsed.program.front() : parsed.positional.front();
    return fail("command line", extra, "is not an option", "rollcall-train --help");
  }
  return Options{.request = request_of(parsed),
                 .json = parsed.has("json"),
                 .trace_startup = parsed.has("trace-startup"),
                 .trainer = std::move(trainer),
                 .launch = std::move(launch)};
}

std::string help_text() {
  const std::array tables{trainer_table(), settings::launch_table()};
  return fmt::format("{}\n{}", kUsage, command_line::help_text(kFlags, tables));
}

}  // namespace rollcall::config
