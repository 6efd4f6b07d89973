#include "trainer/checkpoint/progress.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/checkpoint/read_plan.h"

namespace rollcall::checkpoint {
namespace {

void add_sums(std::map<std::string, format::Value>& values, const std::string& path,
              const metrics::RunningAverage& sums) {
  values[path + "/loss_sum"] = sums.loss_sum;
  values[path + "/correct_top1"] = sums.correct_top1;
  values[path + "/correct_top5"] = sums.correct_top5;
  values[path + "/samples"] = sums.samples;
  values[path + "/damaged"] = sums.damaged;
  values[path + "/unread"] = sums.unread;
}

/// Values that are no file's.
struct Values {
  std::map<std::string, format::Value> by_path;

  template <typename T>
  [[nodiscard]] const T* value(const std::string& path) const {
    const auto found = by_path.find(path);
    return found == by_path.end() ? nullptr : std::get_if<T>(&found->second);
  }
};

template <typename Source, typename T>
bool take(const Source& stored, const std::string& path, T& into) {
  const T* const value = stored.template value<T>(path);
  if (value != nullptr) {
    into = *value;
  }
  return value != nullptr;
}

template <typename Source>
metrics::RunningAverage read_sums(const Source& stored, const std::string& path) {
  metrics::RunningAverage sums;
  const bool whole =
      take(stored, path + "/loss_sum", sums.loss_sum) && take(stored, path + "/correct_top1", sums.correct_top1) &&
      take(stored, path + "/correct_top5", sums.correct_top5) && take(stored, path + "/samples", sums.samples);
  (void)take(stored, path + "/damaged", sums.damaged);
  (void)take(stored, path + "/unread", sums.unread);
  return whole ? sums : metrics::RunningAverage();
}

void add_data_set(std::map<std::string, format::Value>& values, const std::string& path, const DataSet& data) {
  values[path + "/source_images"] = data.images;
  values[path + "/class_names_crc32c"] = data.class_names;
  values[path + "/labels_crc32c"] = data.labels;
  values[path + "/picture_names_crc32c"] = data.picture_names;
}

template <typename Source>
DataSet read_data_set(const Source& stored, const std::string& path) {
  DataSet data;
  (void)take(stored, path + "/source_images", data.images);
  (void)take(stored, path + "/class_names_crc32c", data.class_names);
  (void)take(stored, path + "/labels_crc32c", data.labels);
  (void)take(stored, path + "/picture_names_crc32c", data.picture_names);
  return data;
}

}  // namespace

void add_progress(std::map<std::string, format::Value>& values, const Progress& progress) {
  values["/progress/epoch"] = progress.epoch;
  values["/progress/step_in_epoch"] = progress.step_in_epoch;
  values["/progress/global_step"] = progress.global_step;
  values["/progress/best_metric"] = progress.best_metric;
  values["/progress/best_step"] = progress.best_step;
  values["/progress/world_size"] = progress.world_size;
  values["/progress/batch_size"] = progress.batch_size;
  values["/progress/global_batch_asked"] = progress.global_batch_asked;
  values["/sampler/seed"] = progress.seed;
  values["/sampler/epoch"] = progress.epoch;
  values["/sampler/position"] = progress.sample_position;
  values["/sampler/dataset_size"] = progress.dataset_size;
  add_data_set(values, "/sampler", progress.data.train);
  add_data_set(values, "/validation", progress.data.valid);
  values["/progress/skipped_steps"] = progress.skipped_steps;
  values["/progress/validation_due"] = progress.validation_due;
  values["/loss_scale/scale"] = progress.loss_scale;
  values["/loss_scale/good_steps"] = progress.loss_scale_good_steps;
  values[format::kBestPath] = format::best_to_json(progress.best);
  add_sums(values, "/progress/epoch_totals", progress.epoch_totals);
  add_sums(values, "/progress/unrecorded", progress.unrecorded);
}

namespace {

/// What a file says that no training of ours wrote would be a place outside of the data.
bool is_possible(const Progress& progress) {
  return progress.epoch >= 0 && progress.step_in_epoch >= 0 && progress.global_step >= 0 &&
         progress.sample_position >= 0 && progress.world_size >= 1 && progress.batch_size >= 0 &&
         progress.global_batch_asked >= 0;
}

template <typename Source>
std::optional<Progress> progress_of(const Source& stored) {
  Progress progress;
  const bool whole = take(stored, "/progress/epoch", progress.epoch) &&
                     take(stored, "/progress/step_in_epoch", progress.step_in_epoch) &&
                     take(stored, "/progress/global_step", progress.global_step) &&
                     take(stored, "/progress/best_metric", progress.best_metric) &&
                     take(stored, "/progress/best_step", progress.best_step) &&
                     take(stored, "/progress/world_size", progress.world_size) &&
                     take(stored, "/progress/batch_size", progress.batch_size) &&
                     take(stored, "/sampler/seed", progress.seed) &&
                     take(stored, "/sampler/position", progress.sample_position);
  if (!take(stored, "/progress/global_batch_asked", progress.global_batch_asked)) {
    progress.global_batch_asked = progress.world_size * progress.batch_size;  // a file that does not say
  }
  (void)take(stored, "/sampler/dataset_size", progress.dataset_size);
  progress.data.train = read_data_set(stored, "/sampler");
  progress.data.valid = read_data_set(stored, "/validation");
  (void)take(stored, "/progress/skipped_steps", progress.skipped_steps);
  (void)take(stored, "/progress/validation_due", progress.validation_due);
  (void)take(stored, "/loss_scale/scale", progress.loss_scale);
  (void)take(stored, "/loss_scale/good_steps", progress.loss_scale_good_steps);
  progress.epoch_totals = read_sums(stored, "/progress/epoch_totals");
  std::string best;
  progress.best = take(stored, format::kBestPath, best) ? format::best_from_json(best) : std::vector<Best>();
  progress.unrecorded = read_sums(stored, "/progress/unrecorded");
  return whole && is_possible(progress) ? std::optional(progress) : std::nullopt;
}

}  // namespace

std::optional<Progress> read_progress(const OpenCheckpoint& stored) { return progress_of(stored); }

std::string progress_to_text(const Progress& progress) {
  std::map<std::string, format::Value> values;
  add_progress(values, progress);
  nlohmann::json json;
  for (const auto& [path, value] : values) {
    // A number's kind is not to be guessed from how it looks; bits also carry what JSON has no number for.
    if (const auto* const number = std::get_if<double>(&value)) {
      json["reals"][path] = std::bit_cast<std::uint64_t>(*number);
    } else if (const auto* const whole = std::get_if<std::int64_t>(&value)) {
      json["integers"][path] = *whole;
    } else if (const auto* const natural = std::get_if<std::uint64_t>(&value)) {
      json["naturals"][path] = *natural;
    } else if (const auto* const text = std::get_if<std::string>(&value)) {
      json["texts"][path] = *text;
    }
  }
  return json.dump();
}

Progress progress_of_text(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  Values values;
  for (const auto& [path, bits] : json.at("reals").items()) {
    values.by_path[path] = std::bit_cast<double>(bits.get<std::uint64_t>());
  }
  for (const auto& [path, whole] : json.at("integers").items()) {
    values.by_path[path] = whole.get<std::int64_t>();
  }
  for (const auto& [path, natural] : json.at("naturals").items()) {
    values.by_path[path] = natural.get<std::uint64_t>();
  }
  for (const auto& [path, words] : json.at("texts").items()) {
    values.by_path[path] = words.get<std::string>();
  }
  return progress_of(values).value();
}

}  // namespace rollcall::checkpoint
