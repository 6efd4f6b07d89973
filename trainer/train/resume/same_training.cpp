#include "trainer/train/resume/same_training.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/config/identity.h"
#include "trainer/data/sources/left_out.h"

namespace rollcall::train {
namespace {

/// Returns the batches of a step for the scaling of the learning rate: over ranks, and accumulated.
std::int64_t batches_of(std::int64_t images, std::int64_t batch_size) {
  return batch_size > 0 ? images / batch_size : 0;
}

/// Adds a change if a step has as many images in another number of batches, by which the learning rate is scaled.
void add_scaling(std::vector<config::Change>& changes, const EarlierTraining& earlier,
                 const config::TrainConfig& config, std::int64_t images) {
  const bool scales = config.optim.scale_optim_params || config.optim.scaling != optim::LearningRateScaling::None;
  const std::string then = config::setting_then(earlier.config_json, "batch-size");
  const std::int64_t before = batches_of(images, parse_integer<std::int64_t>(then).value_or(0));
  const std::int64_t now = batches_of(images, config.batch_size());
  if (scales && before > 0 && before != now) {
    changes.push_back({"--batch-size", then,
                       fmt::format("{} (the learning rate would be scaled for {} a step, not {})", config.batch_size(),
                                   counted(now, "batch", "batches"), before)});
  }
}

/// Adds a change of --global-batch, which also sets lr-scaling, and returns whether there is one.
bool add_global_batch(std::vector<config::Change>& changes, const EarlierTraining& earlier, std::int64_t now) {
  const std::string given = config::setting_then(earlier.config_json, "global-batch");
  std::string then = given.empty() ? "0" : given;  // files of earlier versions do not store it
  if (then == std::to_string(now)) {
    return false;
  }
  std::erase_if(changes, [](const config::Change& change) { return change.option == "--lr-scaling"; });
  changes.push_back({"--global-batch", std::move(then), std::to_string(now)});
  return true;
}

/// Adds changes of the size of a step that the user requested; another number of ranks alone is not another training.
void add_step_size(std::vector<config::Change>& changes, const EarlierTraining& earlier,
                   const config::TrainConfig& config, const JobContext& context) {
  const StepSize size = step_size(config, context);
  const std::int64_t now = size.images();
  if (add_global_batch(changes, earlier, size.global_batch)) {
    return;
  }
  const auto compare = [&](const char* name, std::int64_t value) {
    std::string then = config::setting_then(earlier.config_json, name);
    if (!then.empty() && then != std::to_string(value)) {
      changes.push_back({"--" + std::string(name), std::move(then), std::to_string(value)});
    }
  };
  if (earlier.progress.global_batch_asked == now || earlier.images_of_step() == now) {
    const std::size_t before = changes.size();
    add_scaling(changes, earlier, config, now);
    const bool same_ranks = size.global_batch > 0 && earlier.progress.world_size == size.world_size;
    if (changes.size() == before && (same_ranks || config.parallel.replica.exact.virtual_ranks > 0)) {
      compare("batch-size", config.batch_size());  // BatchNorm uses other batches
    }
    return;
  }
  if (size.global_batch > 0) {  // other ranks, which cannot divide it
    return;
  }
  compare("batch-size", config.batch_size());
  if (config.accumulation_given) {
    compare("grad-accumulation", config.grad_accumulation());
  }
}

/// Compares the data: its path may change, but synthetic images are never those of a folder.
void add_data(std::vector<config::Change>& changes, std::vector<std::string>& warnings, const EarlierTraining& earlier,
              const config::TrainConfig& config) {
  const std::string then = config::setting_then(earlier.config_json, "data");
  const std::string& now = config.data.given;
  if (then.empty() || then == now) {
    return;
  }
  if (then == "fake" || now == "fake") {
    changes.push_back({"--data", then, now});
  } else {
    warnings.push_back(fmt::format(
        "--data: {}: the checkpoint was trained on {}; continuing as if these were the same images", now, then));
  }
}

/// Warns if init-from changed: a training that resumes does not read it again, as it may have moved or no longer be
/// given.
void warn_of_other_beginning(std::vector<std::string>& warnings, const EarlierTraining& earlier,
                             const config::TrainConfig& config) {
  const std::string then = config::setting_then(earlier.config_json, "init-from");
  const std::string& now = config.checkpoint.init_from;
  if (!now.empty() && now != then) {
    warnings.push_back(
        fmt::format("--init-from: {}: is ignored, because this run resumes from {}, whose training started from {}",
                    now, earlier.path, then.empty() ? "random weights" : then));
  }
}

}  // namespace

Result<void> check_same_training(const EarlierTraining& earlier, const settings::Settings& settings,
                                 const config::TrainConfig& config, const JobContext& context,
                                 std::vector<std::string>& warnings) {
  std::vector<config::Change> changes =
      config::changes(earlier.config_json, settings, context.device.type() != at::kCPU);
  add_step_size(changes, earlier, config, context);
  add_data(changes, warnings, earlier, config);
  warn_of_other_beginning(warnings, earlier, config);
  if (changes.empty()) {
    return {};
  }
  const config::CheckpointConfig& checkpoint = config.checkpoint;
  const std::string resume = checkpoint.accept_changes ? "continue-with-changes" : checkpoint.load.resume;
  const std::string text = config::changes_text(changes);
  if (resume != "auto") {
    warnings.push_back(
        fmt::format("--resume: {}: {} is of a training with other settings: {}; continuing with the new values", resume,
                    earlier.path, text));
    return {};
  }
  return fail(
      "--resume", resume, fmt::format("{} is of another training: {}", earlier.path, text),
      "changing --run-name or --checkpoint-dir for a new training, or --resume=continue-with-changes to continue "
      "with the new values, or --resume=never to start from the beginning in this folder",
      ErrorKind::Mismatch);
}

namespace {

std::string ranks(std::int64_t number) { return counted(number, "rank"); }

/// The setting that does not fit, its value, and what would.
struct Remedy {
  std::string setting;
  std::int64_t value = 0;
  std::string action;
};

Remedy remedy_for(std::int64_t images, const StepSize& now) {
  if (now.global_batch > 0) {
    return {"--global-batch", now.global_batch,
            now.images() == now.global_batch
                ? fmt::format("--global-batch={}", images)
                : fmt::format("using a number of ranks that divides {}", now.global_batch)};
  }
  if (const auto accumulation = accumulation_for(images, now.world_size, now.batch_size)) {
    return {"--grad-accumulation", now.accumulation,
            fmt::format("--grad-accumulation={}, or leaving it out", *accumulation)};
  }
  if (const auto batch_size = batch_size_for(images, now.world_size, now.batch_size)) {
    return {"--batch-size", now.batch_size,
            fmt::format("--batch-size={} --grad-accumulation={} (if --lr is scaled by the batches of a step, also "
                        "--resume=continue-with-changes and an --lr that keeps the rate)",
                        *batch_size, *accumulation_for(images, now.world_size, *batch_size))};
  }
  return {"--batch-size", now.batch_size, fmt::format("using a number of ranks that divides {}", images)};
}

}  // namespace

StepSize step_size(const config::TrainConfig& config, const JobContext& context) {
  return {virtual_ranks(config, context).all, config.batch_size(), config.grad_accumulation(),
          config.data.global_batch};
}

std::optional<std::int64_t> accumulation_for(std::int64_t images, std::int64_t world_size, std::int64_t batch_size) {
  const std::int64_t of_micro_batch = world_size * batch_size;
  return images > 0 && images % of_micro_batch == 0 ? std::optional(images / of_micro_batch) : std::nullopt;
}

std::optional<std::int64_t> batch_size_for(std::int64_t images, std::int64_t world_size, std::int64_t most) {
  for (std::int64_t size = std::min(most, images / world_size); size > 0; --size) {
    if (accumulation_for(images, world_size, size)) {
      return size;
    }
  }
  return std::nullopt;
}

StepSizeChange step_size_change(const StepSize& then, std::int64_t asked, const StepSize& now) {
  if (then.world_size == now.world_size && then.images() == now.images()) {
    return {};
  }
  if (then.images() == now.images()) {
    return {.note = fmt::format("a step keeps its {} from {} (--grad-accumulation={})", counted(then.images(), "image"),
                                ranks(then.world_size), now.accumulation),
            .warning = {}};
  }
  if (now.images() == asked) {
    return {.note = fmt::format("a step has the requested {} images again; it had {} with {} "
                                "(--grad-accumulation={})",
                                asked, then.images(), ranks(then.world_size), now.accumulation),
            .warning = {}};
  }
  const Remedy remedy = remedy_for(asked, now);
  return {.note = {},
          .warning = fmt::format(
              "{}: {}: a step has {} with {}, but had {} with {} in the checkpoint{}; the number of steps in an "
              "epoch "
              "changes, and the learning rate's schedule continues by epochs; to keep the size of a step, try {}",
              remedy.setting, remedy.value, counted(now.images(), "image"), ranks(now.world_size), then.images(),
              ranks(then.world_size), asked == then.images() ? "" : fmt::format(" ({} were requested)", asked),
              remedy.action)};
}

namespace {

using checkpoint::DataParts;
using data::DataIdentity;

constexpr const char* kOtherData =
    "using the data set of that training, or changing --run-name or --checkpoint-dir and adding --init-from=FILE to "
    "start from its weights";

/// Returns the first difference, or an empty text. A number below 0 is unknown.
std::string difference_of(const checkpoint::DataSet& one, const checkpoint::DataSet& other) {
  const auto differ = [](std::int64_t a, std::int64_t b) { return a >= 0 && b >= 0 && a != b; };
  if (differ(one.class_names, other.class_names)) {
    return "the names of the classes";
  }
  if (differ(one.labels, other.labels)) {
    return "the labels of the images";
  }
  if (differ(one.parts, other.parts)) {
    return "the parts of the split of the images";
  }
  return differ(one.picture_names, other.picture_names) ? "the names of the images" : "";
}

/// Returns "the validation images (60, not 50)", or an empty text; files of earlier versions do not store them.
std::string validation_difference_of(const checkpoint::DataSet& then, const checkpoint::DataSet& now) {
  if (then.images != 0 && then.images != now.images) {
    return fmt::format("the validation images ({}, not {})", now.images, then.images);
  }
  const std::string what = difference_of(then, now);
  return what.empty() ? "" : what + " for validation";
}

checkpoint::DataSet kept_of(const DataIdentity& identity) {
  return {.images = identity.images,
          .class_names = identity.class_names,
          .labels = identity.labels,
          .picture_names = identity.picture_names,
          .parts = identity.parts};
}

/// Drops class names that are only numbers: the classes of a training without names were called by their numbers.
DataParts without_numbers(DataParts then, std::size_t classes) {
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < classes; ++i) {
    numbers.push_back(std::to_string(i));
  }
  const std::int64_t checksum = data::checksum_of_names(numbers);
  for (const auto part : {&DataParts::train, &DataParts::valid}) {
    std::int64_t& names = (then.*part).class_names;
    names = names == checksum ? -1 : names;
  }
  return then;
}

}  // namespace

std::string read_since_text(const data::Datasets& now) {
  constexpr std::array<std::string_view, 3> kAlwaysRead{"jpg", "jpeg", "png"};
  data::LeftOut others;
  for (const auto& part : {now.train, now.valid}) {
    for (std::int64_t index = 0; part != nullptr && index < part->size(); ++index) {
      const std::string name = part->describe(index);
      const std::string ending = data::last_ending(name);
      if (data::is_picture_ending(ending) && std::ranges::find(kAlwaysRead, ending) == kAlwaysRead.end()) {
        others.add("." + ending, name);
      }
    }
  }
  return others.is_empty() ? "" : "; among them are images of kinds that earlier versions ignored, " + others.text();
}

std::string difference_of(const DataParts& one, const DataParts& other) {
  for (const auto part : {&DataParts::train, &DataParts::valid}) {
    if ((one.*part).images != (other.*part).images) {
      return fmt::format("{} for {}, not {}", counted((one.*part).images, "image"),
                         part == &DataParts::train ? "training" : "validation", (other.*part).images);
    }
  }
  const std::string train = difference_of(one.train, other.train);
  const std::string what = train.empty() ? difference_of(one.valid, other.valid) : train;
  return what.empty() ? "" : "the same number of images, but " + what + " differ";
}

checkpoint::DataParts data_of(const data::Datasets& datasets) {
  return {kept_of(datasets.identity), kept_of(datasets.valid_identity)};
}

Result<void> check_same_data(const DataParts& then, const data::Datasets& now, const std::string& given,
                             OtherData other, std::vector<std::string>& warnings) {
  const DataParts mine = data_of(now);
  if (then.train.images == 0) {
    warnings.push_back(fmt::format(
        "--data: {}: an earlier version wrote the checkpoint, which does not say what images its training had; "
        "continuing as if these were the same",
        given));
    return {};
  }
  if (then.train.images != mine.train.images) {
    return fail(
        "--data", given,
        fmt::format("has {}, but the checkpoint is of a training with {}{}", counted(mine.train.images, "image"),
                    then.train.images, then.train.images < mine.train.images ? read_since_text(now) : ""),
        kOtherData, ErrorKind::Mismatch);
  }
  const DataParts known = without_numbers(then, now.class_names.size());
  std::string what = difference_of(known.train, mine.train);
  if (what.empty()) {
    what = validation_difference_of(known.valid, mine.valid);
  }
  if (what.empty()) {
    return {};
  }
  if (other == OtherData::Accept && !now.split_by_seed) {
    warnings.push_back(fmt::format("--data: {}: {} differ from those of the training that is resumed", given, what));
    return {};
  }
  const bool validates_more = then.valid.images != 0 && then.valid.images < mine.valid.images;
  return fail("--data", given,
              fmt::format("has as many images as the checkpoint's training, but {} differ{}", what,
                          validates_more ? read_since_text(now) : ""),
              now.split_by_seed ? kOtherData
                                : std::string(kOtherData) + ", or --resume=continue-with-changes to continue anyway",
              ErrorKind::Mismatch);
}

bool validates_otherwise(const DataParts& then, const data::Datasets& now) {
  const DataParts known = without_numbers(then, now.class_names.size());
  return !validation_difference_of(known.valid, data_of(now).valid).empty();
}

}  // namespace rollcall::train
