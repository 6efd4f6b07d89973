#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/this_process.h"
#include "runtime/command_line/command_line.h"
#include "runtime/command_line/tool_main.h"
#include "runtime/job/own_environment.h"
#include "runtime/job/slurm_files.h"
#include "runtime/launchers/likely_rank.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"
#include "trainer/config/identity.h"
#include "trainer/config/named_files.h"
#include "trainer/config/options.h"
#include "trainer/config/recipe.h"
#include "trainer/config/train_config.h"
#include "trainer/data/datasets/datasets.h"
#include "trainer/data/sources/picture_list.h"
#include "trainer/tools/predict/output.h"
#include "trainer/train/failure_report.h"
#include "trainer/train/inference/classify.h"
#include "trainer/train/inference/stored_model.h"
#include "trainer/train/job_context.h"
#include "trainer/train/object_collectives.h"

namespace rollcall::predict {
namespace {

using settings::Kind;
using settings::Setting;
using settings::Settings;
using train::JobContext;
using train::Prediction;

constexpr const char* kCheckpoint = "checkpoint";

constexpr std::array kTable{
    Setting{"top", Kind::Integer, "5", "N", "Number of classes of each image, the most probable first", "Output", "", 1,
            1000}
        .common(),
};

/// The settings of rollcall-train that are options here too.
constexpr auto kOfTrainer = std::to_array<std::string_view>(
    {"model", "image-size", "valid-image-size", "valid-resize", "interpolation", "valid-flip", "mean", "std",
     "exif-orientation", "batch-size", "valid-num-workers", "prefetch", "precision", "verify", "device", "backend"});

constexpr std::array kFlags{
    command_line::Flag{"json", 0, "Print a JSON object for each image, each on a line"},
    command_line::Flag{"csv", 0, "Print CSV with a heading and a line for each image"},
};

constexpr std::string_view kUsage = R"(usage: rollcall-predict [OPTION...] CHECKPOINT IMAGES...

Says for each image which classes a trained model takes it for, with their probabilities. CHECKPOINT is a checkpoint of
rollcall-train, or a file of torch.save or safetensors. IMAGES are image files, folders (with all folders below), tar
archives, and CSV files with paths in their first column. A checkpoint also says which model it is of, how large its
images are, and what its classes are called.

  rollcall-predict best.h5 photo.jpg
  rollcall-predict --top=1 --csv best.h5 photos/ > photos.csv
  rollcall-predict --json best.h5 list.csv shard-000.tar | jq .path
  rollcall-predict --model=resnet50 resnet50.pth photos/
  srun --ddp -n8 rollcall-predict best.h5 $SCRATCH/photos    eight ranks share the images, and rank 0 prints

Lines are in the order of the arguments. Files of a folder are sorted by path.
)";

constexpr std::string_view kCodes =
    "\nExit codes: 0 success; 64 wrong option; 65 some images cannot be decoded or read, or the checkpoint is "
    "damaged;\n"
    "66 an input does not exist or holds no images; 69 no connection, or a peer was lost; 74 the output cannot be\n"
    "written; 76 the checkpoint is of another model.\n";

settings::Table table_of_trainer() {
  static const std::vector<Setting> rows = [] {
    std::vector<Setting> some;
    for (const Setting& row : config::trainer_table()) {
      if (std::ranges::find(kOfTrainer, row.name) != kOfTrainer.end()) {
        some.push_back(row);
      }
    }
    return some;
  }();
  return rows;
}

struct Options {
  std::string checkpoint;
  std::vector<std::string> inputs;
  Format format = Format::Table;
  std::int64_t top = 5;
  Settings trainer;
  settings::LaunchSettings launch;
};

/// Returns nothing after --help and --version.
Result<std::optional<Options>> read_options(const Environment& environment, const std::vector<std::string>& arguments) {
  const std::array<settings::Table, 1> launch_only{settings::launch_table()};
  const std::array<settings::Table, 1> trainer_only{config::trainer_table()};
  const settings::PluginProfile profile = job::profile_of_plugin(environment);
  ASSIGN_OR_RETURN(
      Settings trainer,
      settings::load_settings(config::trainer_table(), environment,
                              {.site = profile, .section = settings::kTrainerSection, .other_tables = launch_only}));
  ASSIGN_OR_RETURN(Settings launch,
                   settings::load_settings(settings::launch_table(), environment,
                                           {.site = profile, .section = {}, .other_tables = trainer_only}));
  Settings own{settings::Table(kTable)};
  Settings given(table_of_trainer());
  const std::array targets{&own, &given, &launch};
  const std::string version = fmt::format("{} (LibTorch {})", ROLLCALL_VERSION, TORCH_VERSION);
  const command_line::Tool tool{"rollcall-predict", version, kUsage, kFlags, kCodes};
  ASSIGN_OR_RETURN(const auto parsed, command_line::read_tools_command_line(tool, targets, arguments, std::cout));
  if (!parsed) {
    return std::optional<Options>();
  }
  if (parsed->positional.size() < 2) {
    return fail("command line", "", parsed->positional.empty() ? "CHECKPOINT is missing" : "IMAGES are missing",
                "rollcall-predict CHECKPOINT IMAGES");
  }
  if (parsed->has("json") && parsed->has("csv")) {
    return fail("command line", "--json --csv", "are two formats", "giving one of them");
  }
  for (const Setting& row : given.table()) {
    if (!given.is_default(row.name)) {
      RETURN_IF_ERROR(trainer.set(row.name, given.text(row.name), given.value(row.name).origin));
    }
  }
  // The images are those of the command line, not the data of the training.
  RETURN_IF_ERROR(trainer.set("data", "fake", parsed->positional.front()));
  return std::optional(Options{
      .checkpoint = parsed->positional.front(),
      .inputs = {parsed->positional.begin() + 1, parsed->positional.end()},
      .format = parsed->has("json")  ? Format::Json
                : parsed->has("csv") ? Format::Csv
                                     : Format::Table,
      .top = own.integer("top"),
      .trainer = std::move(trainer),
      .launch = std::move(launch),
  });
}

/// Returns the configuration with the stored model's settings below the user's own.
Result<config::TrainConfig> make_config(const Options& options, const checkpoint::StoredModel& stored,
                                        const Environment& environment) {
  Settings settings = options.trainer;
  RETURN_IF_ERROR(config::apply_settings_of_model(settings, stored.config_json, options.checkpoint));
  if (const std::string loss = config::setting_then(stored.config_json, "loss"); !loss.empty()) {
    RETURN_IF_ERROR(settings.set("loss", loss, options.checkpoint));  // probabilities are as the model was trained
  }
  RETURN_IF_ERROR(config::identify_script(settings, environment));
  RETURN_IF_ERROR(
      config::confirm_same_script(settings, config::setting_then(stored.config_json, "model"), options.checkpoint));
  ASSIGN_OR_RETURN(config::TrainConfig config,
                   config::make_train_config(settings, environment, config::Use::Inference));
  config.data.loading.bad_samples = data::BadSamples::Skip;
  return config;
}

/// Returns the pictures, which rank 0 lists.
Result<std::shared_ptr<const data::ImageSource>> open_pictures(const Options& options, const JobContext& context) {
  std::vector<std::string> warnings;
  const Result<data::PictureList> list =
      context.rank == 0 ? data::list_pictures(options.inputs, warnings) : Result(data::PictureList());
  RETURN_IF_ERROR(train::everywhere(context.process_group, list));
  for (const std::string& warning : warnings) {
    fmt::print(stderr, "rollcall: warning: {}\n", printable(warning));
  }
  ASSIGN_OR_RETURN(const std::string bytes, train::broadcast_text(0, context.process_group, data::to_bytes(*list)));
  auto opened = data::PictureListSource::open(data::picture_list_of(bytes));
  RETURN_IF_ERROR(train::everywhere(context.process_group, opened));
  return opened;
}

/// Returns the exit code.
Result<int> predict(const Options& options, const Environment& environment, const JobContext& context) {
  ASSIGN_OR_RETURN(const checkpoint::StoredModel stored,
                   train::read_stored_model(options.checkpoint, kCheckpoint, context));
  const Result<config::TrainConfig> config = make_config(options, stored, environment);
  RETURN_IF_ERROR(train::everywhere(context.process_group, config));
  ASSIGN_OR_RETURN(const auto source, open_pictures(options, context));
  ASSIGN_OR_RETURN(auto dataset, data::make_unlabelled(config->data.datasets, source));
  ASSIGN_OR_RETURN(const model::Model model,
                   train::load_stored_model(options.checkpoint, kCheckpoint, stored, *config, context));
  const std::int64_t top = std::min(options.top, stored.classes);
  Output output(std::cout, options.format, train::names_of_outputs(stored), top);
  if (context.rank == 0) {
    output.begin();
  }
  bool all_read = true;
  const auto take = [&](const std::vector<Prediction>& predictions) -> Result<void> {
    for (const Prediction& one : predictions) {
      output.write(source->describe(one.index), one);
      if (one.unreadable) {
        all_read = false;
        fmt::print(stderr, "{}\n", fail("image", source->describe(one.index), one.unreadable->reason, "").message());
      }
    }
    return std::cout ? Result<void>()
                     : fail("standard output", "", "cannot be written", "redirecting it to another file",
                            ErrorKind::InputOutput);
  };
  RETURN_IF_ERROR(train::classify(*model, {std::move(dataset), {}}, top, *config, context, take));
  return all_read ? to_int(ExitCode::Success) : to_int(exit_code(ErrorKind::BadData));
}

int predict_in_world(const Options& options, const Environment& environment) {
  train::FailureReport report(launchers::likely_rank(environment), launchers::likely_local_rank(environment),
                              this_host_name());
  std::optional<Result<JobContext>> context = train::join_this_step(
      environment, options.launch, config::make_process_group_config(options.trainer), std::nullopt, report);
  if (!*context) {
    return report.report_on_rank_zero(context->error());
  }
  const Result<int> code = predict(options, environment, **context);
  if (code) {
    std::cout.flush();
    train::let_others_leave_first(**context);
    return *code;
  }
  const int failed = report.report_own(code.error());
  context.reset();  // other ranks notice it, and ask who reports the cause
  report.shutdown_grace();
  return failed;
}

/// Runs `rollcall-predict` and returns its exit code. Rank 0 prints.
int run(const Environment& environment, const std::vector<std::string>& arguments) {
  const Result<std::optional<Options>> options = read_options(environment, arguments);
  if (!options) {
    if (launchers::likely_rank(environment) == 0) {
      fmt::print(stderr, "{}\n", options.error().message());
    }
    return to_int(options.error().exit_code());
  }
  return *options ? predict_in_world(**options, job::with_slurmctld_facts(environment)) : to_int(ExitCode::Success);
}

}  // namespace
}  // namespace rollcall::predict

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return rollcall::command_line::tool_main("rollcall-predict", "lowering --batch-size", std::cout, std::cerr, [&] {
    const rollcall::Environment own = rollcall::job::own_environment(rollcall::Environment::of_this_process());
    return rollcall::predict::run(rollcall::with_home_and_user(own), arguments);
  });
}
