#include "trainer/config/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/untrusted_json.h"
#include "trainer/config/named_files.h"
#include "trainer/config/options.h"
#include "trainer/optim/schedule.h"

namespace rollcall::config {
namespace {

/// A setting that is not in this list defines the training. That holds for new settings too.
constexpr auto kMayChange = std::to_array<std::string_view>(
    {// speed and machines
     "train-num-workers", "valid-num-workers", "prefetch", "channels-last", "parallel", "elastic", "replicate-to",
     "replicate-steps", "find-unused-parameters", "static-graph", "first-bucket", "bucket", "shard-degree",
     "replicate-degree", "reshard-after-forward", "accumulate", "cpu-offload", "device", "deterministic", "own-kernels",
     "cuda-graph", "backend", "collective-timeout",
     // length: see ends_schedule()
     "epochs", "max-steps", "early-stopping",
     // checkpoints
     "run-name", "run-dir", "checkpoint-dir", "checkpoint-epochs", "checkpoint-steps", "keep-last", "keep-best",
     "keep-every", "checkpoint-mode", "checkpoint-stage", "index-dir", "checkpoint-overlap", "checkpoint-read-back",
     "checkpoint-retries", "checkpoint-failures", "checkpoint-timeout", "save-before-limit", "lease-timeout", "resume",
     "verify",
     // output
     "valid-epochs", "benchmark-epochs", "progress", "log-steps", "rank-seconds", "report", "tensorboard",
     "tensorboard-histograms", "trace-steps",
     // a training that a damaged image has ended may continue without it
     "bad-samples", "max-bad-samples", "max-skipped-steps",
     // their result is compared instead: a recipe's values, the images of a step, the number of classes, the images
     "recipe", "sweep", "global-batch", "batch-size", "grad-accumulation", "num-classes", "class-names", "data",
     "fake-size",
     // read only when a training starts; another value is reported
     "init-from",
     // of an evaluation
     "evaluate", "evaluate-split"});

/// Paths, which may differ between nodes, what each rank does by itself, and what only rank 0 shows.
constexpr auto kMayDiffer = std::to_array<std::string_view>(
    {"recipe", "sweep", "data", "class-names", "index-dir", "train-num-workers", "valid-num-workers", "prefetch",
     "run-name", "run-dir", "checkpoint-dir", "checkpoint-stage", "init-from", "evaluate", "resume", "lease-timeout",
     "progress", "report"});

/// Whether the setting names a file to start from. It must be the same file for all ranks, but may have other names.
bool names_a_file(std::string_view name) { return name == "init-from" || name == "resume" || name == "evaluate"; }

/// Whether the value is a file. A word must be equal: a rank that starts anew would wait for one that resumes for ever.
bool file_is_named(std::string_view name, std::string_view value) {
  constexpr auto kWords = std::to_array<std::string_view>({"", "auto", "continue-with-changes", "never"});
  return names_a_file(name) && std::find(kWords.begin(), kWords.end(), value) == kWords.end();
}

/// Whether the setting is the end of the training, which changes some schedules from the first step.
bool ends_schedule(std::string_view name, const settings::Settings& now) {
  const Result<optim::ScheduleKind> schedule = optim::parse_schedule(now.text("lr-schedule"));
  return (name == "epochs" || name == "max-steps") && schedule && optim::ends_with_training(*schedule);
}

/// Returns the pairs of --lr-factors, in an order and with numbers that do not depend on how they were written.
std::vector<std::pair<std::string, double>> factors_in(const std::string& text) {
  std::vector<std::pair<std::string, double>> pairs;
  for (const std::string& pair : split(text, ',')) {
    const std::size_t end = std::min(pair.rfind('='), pair.size());
    pairs.emplace_back(trim(pair.substr(0, end)), std::strtod(pair.c_str() + std::min(end + 1, pair.size()), nullptr));
  }
  std::ranges::sort(pairs);
  return pairs;
}

/// Whether two accepted texts of a setting mean the same: 3e-4 is 0.0003.
bool same_value(const settings::Setting& setting, const std::string& one, const std::string& other) {
  if (setting.name == "model" || setting.name == "class-weights") {
    return is_same_file(one, other);
  }
  if (setting.name == "lr-factors") {
    return factors_in(one) == factors_in(other);
  }
  const bool numbers = setting.kind == settings::Kind::Number || setting.kind == settings::Kind::Integer;
  return one == other || (numbers && std::strtod(one.c_str(), nullptr) == std::strtod(other.c_str(), nullptr) &&
                          std::isdigit(static_cast<unsigned char>(one.back())) != 0 &&
                          std::isdigit(static_cast<unsigned char>(other.back())) != 0);
}

nlohmann::json parsed(std::string_view text) {
  nlohmann::json json = parse_untrusted(text).value_or(nlohmann::json());
  return json.is_object() ? json : nlohmann::json::object();
}

/// Returns the value of a setting, or `otherwise` if the object does not have it.
std::string value_in(const nlohmann::json& json, std::string_view name, std::string_view otherwise) {
  const auto setting = json.find(name);
  if (setting == json.end() || !setting->is_object() || !setting->contains("value")) {
    return std::string(otherwise);
  }
  const nlohmann::json& value = setting->at("value");
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Whether a setting's entry has another origin than "default".
bool was_given(const nlohmann::json& entry) {
  return entry.is_object() && entry.contains("value") && entry.contains("origin") && entry.at("origin") != "default";
}

/// Whether the former and the present text of a setting give the same training.
using Same = std::function<bool(const settings::Setting&, const std::string&, const std::string&)>;

/// Returns the settings that are not the same now.
std::vector<Change> compare(std::string_view then, const settings::Settings& now, const Same& same) {
  const nlohmann::json json = parsed(then);
  std::vector<Change> found;
  if (json.empty()) {
    return found;
  }
  for (const settings::Setting& setting : now.table()) {
    std::string before = value_in(json, setting.name, setting.default_text);
    if (!same(setting, before, now.text(setting.name))) {
      found.push_back({settings::option_name(setting.name), std::move(before), now.text(setting.name)});
    }
  }
  for (const auto& [name, value] : json.items()) {
    if (settings::find_setting(now.table(), name) == nullptr && was_given(value)) {
      found.push_back({settings::option_name(name), value_in(json, name, ""), "unknown to this version"});
    }
  }
  return found;
}

/// Returns whether one is today's default and the other that of earlier versions, of settings whose two defaults are
/// the same on CPUs.
bool are_defaults(const settings::Setting& setting, const std::string& one, const std::string& other) {
  const std::string earlier = setting.name == "image-dtype" ? "float32" : setting.name == "own-kernels" ? "true" : "";
  return !earlier.empty() && std::set{one, other} == std::set{std::string(setting.default_text), earlier};
}

}  // namespace

bool may_change(std::string_view name) {
  return std::find(kMayChange.begin(), kMayChange.end(), name) != kMayChange.end();
}

bool may_differ_among_ranks(std::string_view name) {
  return std::find(kMayDiffer.begin(), kMayDiffer.end(), name) != kMayDiffer.end();
}

std::vector<Change> changes(std::string_view then, const settings::Settings& now, bool on_device) {
  return compare(then, now, [&](const settings::Setting& setting, const std::string& one, const std::string& other) {
    const bool other_kernels =
        (setting.name == "channels-last" || setting.name == "own-kernels") && now.text("elastic-exact") != "0";
    const bool free = may_change(setting.name) && !ends_schedule(setting.name, now) && !other_kernels;
    return free || (!on_device && are_defaults(setting, one, other)) || same_value(setting, one, other);
  });
}

std::vector<Change> differences_among_ranks(std::string_view of_rank_zero, const settings::Settings& mine) {
  return compare(of_rank_zero, mine,
                 [](const settings::Setting& setting, const std::string& one, const std::string& other) {
                   const bool places = file_is_named(setting.name, one) && file_is_named(setting.name, other);
                   return (may_differ_among_ranks(setting.name) && (places || !names_a_file(setting.name))) ||
                          same_value(setting, one, other);
                 });
}

std::string setting_then(std::string_view then, std::string_view name) { return value_in(parsed(then), name, ""); }

std::string changes_text(const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes) {
    const auto shown = [](const std::string& value) { return value.empty() ? std::string("not given") : value; };
    text += fmt::format("{}{} was {} and is {}", text.empty() ? "" : ", ", change.option, shown(change.then),
                        shown(change.now));
  }
  return text;
}

}  // namespace rollcall::config
