#include "trainer/train/data/class_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/settings/values.h"

namespace rollcall::train {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20U;

/// Weights classes as scikit-learn's class_weight="balanced" does: samples / (classes * samples of the class), where
/// only classes with samples count.
void balance(std::vector<float>& weights, const data::Dataset& dataset) {
  const auto samples = data::samples_by_label(dataset);
  const auto classes = std::ranges::count_if(samples, [](const auto& of_label) { return !of_label.empty(); });
  for (std::size_t label = 0; label < samples.size(); ++label) {
    if (!samples[label].empty()) {
      weights[label] = static_cast<float>(static_cast<double>(dataset.size()) /
                                          (static_cast<double>(classes) * static_cast<double>(samples[label].size())));
    }
  }
}

/// Reads one line into the weights; `given` tells which classes have theirs.
Result<void> read_line(const std::string& line, const std::vector<std::string>& names, const std::string& file,
                       std::vector<float>& weights, std::vector<bool>& given) {
  const auto wrong = [&](const std::string& what, const std::string& action) {
    return fail("--class-weights", file, what, action);
  };
  const std::size_t comma = line.rfind(',');
  const std::string name(trim(line.substr(0, comma)));
  const auto weight = comma == std::string::npos ? std::nullopt : settings::parse_number(trim(line.substr(comma + 1)));
  if (!weight || *weight <= 0) {
    return wrong(fmt::format("its line \"{}\" is not a name, a comma and a positive number", line),
                 "writing lines such as cat,1.5");
  }
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    const std::optional<std::string> near = nearest(name, names);
    return wrong(fmt::format("{} is not a class of the data", name),
                 near ? "writing " + *near : "using the names of the data's classes");
  }
  const auto label = static_cast<std::size_t>(found - names.begin());
  if (given[label]) {
    return wrong(fmt::format("has two weights for {}", name), "removing one of them");
  }
  weights[label] = static_cast<float>(*weight);
  given[label] = true;
  return {};
}

}  // namespace

Result<std::vector<float>> class_weights(const std::string& wanted, const data::Datasets& datasets,
                                         std::int64_t outputs) {
  if (wanted == "none") {
    return std::vector<float>();
  }
  std::vector<float> weights(static_cast<std::size_t>(outputs), 1);
  if (wanted == "balanced") {
    balance(weights, *datasets.train);
    return weights;
  }
  std::string text;
  if (const FileReading reading = read_small_file(wanted, kMostBytes, text); !reading.reason.empty()) {
    return fail("--class-weights", wanted, "cannot be read: " + reading.reason, "checking its path and permissions",
                ErrorKind::NoInput);
  }
  std::vector<bool> given(datasets.class_names.size());
  for (const std::string& line : split(text, '\n')) {
    if (!trim(line).empty()) {
      RETURN_IF_ERROR(read_line(line, datasets.class_names, wanted, weights, given));
    }
  }
  if (const auto missing = std::ranges::find(given, false); missing != given.end()) {
    return fail("--class-weights", wanted,
                "has no weight for " + datasets.class_names[static_cast<std::size_t>(missing - given.begin())],
                "adding a line for each class");
  }
  return weights;
}

}  // namespace rollcall::train
