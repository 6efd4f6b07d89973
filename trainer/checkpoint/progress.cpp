#include "trainer/checkpoint/progress.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "runtime/base/untrusted_json.h"
#include "trainer/checkpoint/read_plan.h"

namespace rollcall::checkpoint {
namespace {

constexpr const char* kNotBetter = "/progress/validations_since_best";
constexpr const char* kParts = "/parts_crc32c";

/// Calls visit(path, number) for each number of a progress, with its path in a checkpoint. `Of`: Progress, const or
/// not.
template <typename Of, typename Visit>
void for_each_number(Of& progress, const Visit& visit) {
  visit("/progress/epoch", progress.epoch);
  visit("/progress/step_in_epoch", progress.step_in_epoch);
  visit("/progress/global_step", progress.global_step);
  visit("/progress/best_metric", progress.best_metric);
  visit("/progress/best_step", progress.best_step);
  visit(kNotBetter, progress.not_better);
  visit("/progress/world_size", progress.world_size);
  visit("/progress/batch_size", progress.batch_size);
  visit("/progress/global_batch_asked", progress.global_batch_asked);
  visit("/progress/skipped_steps", progress.skipped_steps);
  visit("/progress/validation_due", progress.validation_due);
  visit("/sampler/seed", progress.seed);
  visit("/sampler/position", progress.sample_position);
  visit("/sampler/dataset_size", progress.dataset_size);
  visit("/loss_scale/scale", progress.loss_scale);
  visit("/loss_scale/good_steps", progress.loss_scale_good_steps);
  const auto data_set = [&](const std::string& path, auto& data) {
    visit(path + "/source_images", data.images);
    visit(path + "/class_names_crc32c", data.class_names);
    visit(path + "/labels_crc32c", data.labels);
    visit(path + "/picture_names_crc32c", data.picture_names);
    visit(path + kParts, data.parts);
  };
  data_set("/sampler", progress.data.train);
  data_set("/validation", progress.data.valid);
  const auto sums = [&](const std::string& path, auto& sum) {
    visit(path + "/loss_sum", sum.loss_sum);
    visit(path + "/correct_top1", sum.correct_top1);
    visit(path + "/correct_top5", sum.correct_top5);
    visit(path + "/samples", sum.samples);
    visit(path + "/damaged", sum.damaged);
    visit(path + "/unread", sum.unread);
  };
  sums("/progress/epoch_totals", progress.epoch_totals);
  sums("/progress/unrecorded", progress.unrecorded);
}

/// Returns the progress if its numbers are possible: those of a forged file could be a position outside of the data.
std::optional<Progress> if_possible(Progress progress) {
  const bool possible = progress.epoch >= 0 && progress.step_in_epoch >= 0 && progress.global_step >= 0 &&
                        progress.sample_position >= 0 && progress.world_size >= 1 && progress.batch_size >= 0 &&
                        progress.global_batch_asked >= 0;
  return possible ? std::optional(std::move(progress)) : std::nullopt;
}

}  // namespace

void add_progress(std::map<std::string, format::Value>& values, const Progress& progress) {
  for_each_number(progress, [&](const std::string& path, const auto& number) { values[path] = number; });
  values["/sampler/epoch"] = progress.epoch;  // for people, next to the position in the epoch
  values[format::kBestPath] = format::best_to_json(progress.best);
}

Result<Progress> read_progress(const OpenCheckpoint& stored) {
  const std::string& file = stored.source().path();
  Progress progress;
  std::string missing;
  for_each_number(progress, [&](const std::string& path, auto& into) {
    const auto* const number = stored.value<std::decay_t<decltype(into)>>(path);
    // Added later: a training before counts from its resume, and its parts are unknown.
    const bool may_lack = path == kNotBetter || path.ends_with(kParts);
    missing = number == nullptr && missing.empty() && !may_lack ? path : missing;
    into = number != nullptr ? *number : into;
  });
  const auto* const best = stored.value<std::string>(format::kBestPath);
  missing = best == nullptr && missing.empty() ? format::kBestPath : missing;
  const bool tells_step = stored.value<std::int64_t>("/progress/global_step") != nullptr;
  if (tells_step && !missing.empty()) {
    return fail("--resume", file, "has no " + missing + ": another version of rollcall wrote it",
                "using the version that wrote it, or using another checkpoint", ErrorKind::Mismatch);
  }
  if (missing.empty()) {
    progress.best = format::best_from_json(*best);
    if (std::optional<Progress> possible = if_possible(std::move(progress))) {
      return *std::move(possible);
    }
  }
  return fail("--resume", file, "does not hold a valid position of a training", "using another checkpoint",
              ErrorKind::BadData);
}

std::string progress_to_text(const Progress& progress) {
  nlohmann::json json;
  json[format::kBestPath] = format::best_to_json(progress.best);
  for_each_number(progress, [&](const std::string& path, const auto& number) {
    if constexpr (std::is_same_v<std::decay_t<decltype(number)>, double>) {
      json[path] = std::bit_cast<std::uint64_t>(number);  // the bits also represent NaN and infinity, which JSON cannot
    } else {
      json[path] = number;
    }
  });
  return json.dump();
}

Progress progress_of_text(const std::string& text) {
  const nlohmann::json json = parse_untrusted(text).value_or(nlohmann::json());
  Progress progress;
  for_each_number(progress, [&](const std::string& path, auto& into) {
    if constexpr (std::is_same_v<std::decay_t<decltype(into)>, double>) {
      into = std::bit_cast<double>(json.at(path).get<std::uint64_t>());
    } else {
      json.at(path).get_to(into);
    }
  });
  progress.best = format::best_from_json(json.at(format::kBestPath).get<std::string>());
  return if_possible(std::move(progress)).value();
}

}  // namespace rollcall::checkpoint
