#include "trainer/train/inference/evaluate.h"

#include <fmt/format.h>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/owned_file.h"
#include "runtime/base/text.h"
#include "trainer/config/identity.h"
#include "trainer/config/named_files.h"
#include "trainer/config/recipe.h"
#include "trainer/config/train_config.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/metrics/evaluation.h"
#include "trainer/report/page.h"
#include "trainer/train/data/shared_data.h"
#include "trainer/train/equal_settings.h"
#include "trainer/train/inference/classify.h"
#include "trainer/train/inference/stored_model.h"
#include "trainer/train/outcome.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

constexpr std::int64_t kTop = 5;
constexpr const char* kSetting = "--evaluate";

void warn(const std::string& warning) { fmt::print(stderr, "rollcall: warning: {}\n", printable(warning)); }

/// Returns this rank's result if all ranks succeeded.
template <typename T>
Result<T> on_all_ranks(const JobContext& context, Result<T> mine) {
  RETURN_IF_ERROR(process_group::agree_or_fail(context.process_group, mine ? Result<void>() : mine.error()));
  return mine;
}

/// Returns the configuration with the stored model's settings below the user's own.
Result<config::TrainConfig> make_config(const SessionInput& input, const checkpoint::StoredModel& stored,
                                        const std::string& path, const JobContext& context) {
  settings::Settings settings = input.options.trainer;
  RETURN_IF_ERROR(on_all_ranks(context, config::apply_settings_of_model(settings, stored.config_json, path)));
  RETURN_IF_ERROR(on_all_ranks(context, config::identify_script(settings, input.environment)));
  RETURN_IF_ERROR(on_all_ranks(
      context, config::confirm_same_script(settings, config::setting_then(stored.config_json, "model"), path)));
  ASSIGN_OR_RETURN(config::TrainConfig config,
                   on_all_ranks(context, config::make_train_config(settings, input.environment)));
  RETURN_IF_ERROR(on_all_ranks(context, confirm_equal_settings(context, settings, config.json)));
  return config;
}

/// Counts what rank 0 gets, and names images that cannot be read, as long as these are few.
void count(metrics::Evaluation& evaluation, const std::vector<Prediction>& predictions,
           const std::function<void(const Prediction&)>& count_readable) {
  constexpr std::int64_t kMostNamed = 20;
  for (const Prediction& one : predictions) {
    if (!one.unreadable) {
      count_readable(one);
      continue;
    }
    const bool damaged = one.unreadable->kind == ErrorKind::BadData;
    (damaged ? evaluation.totals.damaged : evaluation.totals.unread) += 1;
    if (evaluation.totals.bad() <= kMostNamed) {
      warn(one.unreadable->text());
    }
  }
}

Result<void> count_all(model::ImageClassifier& model, const ImagesToClassify& images, const config::TrainConfig& config,
                       const JobContext& context, metrics::Evaluation& evaluation) {
  return classify(model, images, kTop, config, context, [&](const std::vector<Prediction>& some) -> Result<void> {
    count(evaluation, some, [&](const Prediction& one) { evaluation.count(one.label, one.classes, one.loss); });
    return {};
  });
}

/// Does the same for images that may have several classes.
Result<void> count_several(model::ImageClassifier& model, const ImagesToClassify& images,
                           const config::TrainConfig& config, const JobContext& context,
                           metrics::Evaluation& evaluation) {
  const data::LabelSets& sets = *images.label_sets;
  metrics::SeveralLabels counts(evaluation);
  RETURN_IF_ERROR(
      classify(model, images, sets.width(), config, context, [&](const std::vector<Prediction>& some) -> Result<void> {
        count(evaluation, some, [&](const Prediction& one) {
          counts.count(sets.classes_of(images.dataset->label(one.index)), one.classes, one.probabilities, one.loss);
        });
        return {};
      }));
  counts.finish();
  return {};
}

Result<void> write(const metrics::Evaluation& evaluation, const std::string& folder) {
  std::error_code error;
  if (std::filesystem::is_symlink(folder, error)) {
    return fail("--run-dir", folder, "is a symbolic link", "removing it", ErrorKind::CannotCreate);
  }
  std::filesystem::create_directories(folder, error);
  if (error) {
    return fail("--run-dir", folder, "cannot be created: " + errno_text(error.value()),
                what_to_try(error.value(), "naming another folder"), ErrorKind::CannotCreate);
  }
  RETURN_IF_ERROR(report::write_whole(folder + "/classes.csv", metrics::classes_csv(evaluation)));
  if (evaluation.mean_average_precision) {
    std::filesystem::remove(folder + "/confusion.csv", error);  // of an earlier evaluation
  } else {
    RETURN_IF_ERROR(report::write_whole(folder + "/confusion.csv", metrics::confusion_csv(evaluation)));
  }
  return report::write_whole(folder + "/evaluation.json", metrics::evaluation_json(evaluation));
}

void print(const metrics::Evaluation& evaluation, const std::string& folder) {
  const metrics::RunningAverage& totals = evaluation.totals;
  const auto samples = static_cast<double>(totals.samples);
  fmt::print("{} in {}\n", printable(evaluation.model), printable(evaluation.checkpoint));
  fmt::print("{:<12}{}, {} of {}, {}\n", "images", totals.samples, evaluation.split, printable(evaluation.data),
             counted(evaluation.ranks, "rank"));
  if (evaluation.mean_average_precision) {
    fmt::print("{:<12}{:.2f} %\n", "mAP", 100 * *evaluation.mean_average_precision);
  }
  fmt::print("{:<12}{:.2f} %  ({})\n", "top-1", 100 * totals.top1(), totals.correct_top1);
  fmt::print("{:<12}{:.2f} %  ({})\n", "top-5", 100 * totals.top5(), totals.correct_top5);
  fmt::print("{:<12}{:.4f}\n", "loss", totals.loss());
  if (totals.bad() > 0) {
    fmt::print("{:<12}{}\n", "unreadable", totals.bad());
  }
  fmt::print("{:<12}{:.1f} images/s\n", "speed", evaluation.seconds > 0 ? samples / evaluation.seconds : 0);
  fmt::print("{:<12}{}\n", "written to", printable(folder));
}

/// Writes and prints the results, unless too many images could not be read.
Result<void> finish(const metrics::Evaluation& evaluation, const config::TrainConfig& config) {
  const std::int64_t images = evaluation.totals.samples + evaluation.totals.bad();
  const auto bad = static_cast<double>(evaluation.totals.bad());
  if (evaluation.totals.samples == 0 || bad > config.run.max_bad_samples * static_cast<double>(images)) {
    return too_many_bad_samples(evaluation.totals, images, "evaluation", config.data.given);
  }
  const std::string folder = config.run.folder + "/evaluation";
  RETURN_IF_ERROR(write(evaluation, folder));
  print(evaluation, folder);
  std::error_code ignored;
  if (config.run.report && std::filesystem::exists(config.run.folder + "/metrics.jsonl", ignored)) {
    constexpr double kMostSeconds = 20;
    (void)report::report_of_run(config.run.folder, kMostSeconds);
    fmt::print("{:<12}{}\n", "report", printable(config.run.folder + "/report.html"));
  }
  return {};
}

}  // namespace

Result<void> evaluate(const SessionInput& input, const JobContext& context) {
  ASSIGN_OR_RETURN(const config::TrainConfig given,
                   on_all_ranks(context, config::make_train_config(input.options.trainer, input.environment)));
  const std::string& path = given.checkpoint.evaluate;
  ASSIGN_OR_RETURN(const checkpoint::StoredModel stored, read_stored_model(path, kSetting, context));
  ASSIGN_OR_RETURN(const config::TrainConfig config, make_config(input, stored, path, context));
  if (config.data.given.empty()) {
    return fail("--data", "", "is not given, and " + path + " does not name its data", "--data=DIR");
  }
  ASSIGN_OR_RETURN(const model::Model model, load_stored_model(path, kSetting, stored, config, context));
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(const data::Datasets datasets, open_shared_data(config.data, context, warnings));
  ASSIGN_OR_RETURN(const std::vector<std::int64_t> outputs,
                   outputs_of_labels(stored, datasets.class_names, config.data.given));
  for (const std::string& warning : context.rank == 0 ? warnings : std::vector<std::string>()) {
    warn(warning);
  }
  metrics::Evaluation evaluation{.checkpoint = path,
                                 .model = config.model.name,
                                 .data = config.data.given,
                                 .split = input.options.trainer.text("evaluate-split"),
                                 .totals = {},
                                 .ranks = context.world_size,
                                 .classes = {},
                                 .confusion = {}};
  for (std::string& name : names_of_outputs(stored, datasets.class_names)) {
    evaluation.classes.push_back({.name = std::move(name)});
  }
  const double begin = seconds_now();
  ImagesToClassify images{datasets.valid, outputs};
  if (const data::LabelSets* const sets = datasets.valid->label_sets()) {
    images.label_sets = std::make_shared<const data::LabelSets>(sets->renumbered(outputs, stored.classes));
  }
  RETURN_IF_ERROR(images.label_sets ? count_several(*model, images, config, context, evaluation)
                                    : count_all(*model, images, config, context, evaluation));
  evaluation.seconds = seconds_now() - begin;
  return process_group::agree_or_fail(context.process_group,
                                      context.rank == 0 ? finish(evaluation, config) : Result<void>());
}

}  // namespace rollcall::train
