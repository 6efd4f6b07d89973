#include "trainer/data/sources/class_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/untrusted_json.h"
#include "trainer/data/sources/data_parts.h"
#include "trainer/data/sources/shard_reader.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostClassFile = std::size_t{256} << 20U;  // bytes
constexpr std::size_t kMostClasses = std::size_t{1} << 24U;

Result<std::vector<std::string>> names_from_json(const std::string& path, const std::string& text) {
  const nlohmann::json names = parse_untrusted(text, {.depth = 1, .values = kMostClasses}).value_or(nlohmann::json());
  const bool texts = names.is_array() && std::all_of(names.begin(), names.end(),
                                                     [](const nlohmann::json& name) { return name.is_string(); });
  if (!texts) {
    return fail("--data", path, fmt::format("is not a JSON list of at most {} strings", kMostClasses),
                "writing the class names as such a list", ErrorKind::BadData);
  }
  return names.get<std::vector<std::string>>();
}

std::vector<std::string> names_from_lines(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& line : split(text, '\n')) {
    names.emplace_back(trim(line));
  }
  while (!names.empty() && names.back().empty()) {
    names.pop_back();
  }
  return names;
}

/// Returns nothing if the file does not exist.
Result<std::optional<std::vector<std::string>>> read_class_file(const std::string& path) {
  std::string text;
  const FileReading reading = read_small_file(path, kMostClassFile, text);
  if (reading.error_number == ENOENT) {
    return std::optional<std::vector<std::string>>();
  }
  if (!reading.reason.empty()) {
    return fail("--data", path, "cannot be read: " + reading.reason, "checking the file of class names",
                ErrorKind::NoInput);
  }
  if (path.ends_with(".txt")) {
    return std::optional(names_from_lines(text));
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names, names_from_json(path, text));
  return std::optional(std::move(names));
}

/// Returns nothing if no file exists.
Result<std::optional<std::vector<std::string>>> read_class_names(const std::string& folder) {
  for (const std::string& path : files_with_class_names(folder)) {
    ASSIGN_OR_RETURN(std::optional<std::vector<std::string>> names, read_class_file(path));
    if (names) {
      return names;
    }
  }
  return std::optional<std::vector<std::string>>();
}

/// Returns whether the names are those of labels: "0", "1", ...
bool are_numbers(const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(),
                     [i = 0](const std::string& name) mutable { return name == std::to_string(i++); });
}

/// Returns the names that are not in `others`, as a text; empty if there are none.
std::string missing_text(std::vector<std::string> names, std::vector<std::string> others) {
  std::sort(names.begin(), names.end());
  std::sort(others.begin(), others.end());
  std::vector<std::string> missing;
  std::set_difference(names.begin(), names.end(), others.begin(), others.end(), std::back_inserter(missing));
  constexpr std::size_t kMostNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(missing.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : i + 1 == missing.size() ? " and " : ", ") + missing[i];
  }
  return missing.size() > kMostNamed ? fmt::format("{} and {} more", text, missing.size() - kMostNamed) : text;
}

}  // namespace

std::vector<std::string> files_with_class_names(const std::string& folder) {
  std::error_code ignored;
  const fs::path absolute = fs::absolute(folder.empty() ? "." : folder, ignored).lexically_normal();
  const fs::path beside = absolute.has_filename() ? absolute : absolute.parent_path();
  std::vector<std::string> files;
  for (const fs::path& place : {fs::path(folder), beside.parent_path()}) {
    for (const char* const name : {"class_names.json", "classes.txt"}) {
      files.push_back((place / name).string());
    }
  }
  const std::string part = beside.filename().string();
  files.resize(is_train_part(part) || is_valid_part(part) ? 4 : 2);
  return files;
}

Result<std::vector<std::string>> names_of_labels(const std::string& folder, const SampleIndexBuilder& pictures) {
  const auto largest = std::max_element(pictures.entries().begin(), pictures.entries().end(),
                                        [](const auto& a, const auto& b) { return a.label < b.label; });
  const std::string_view named = pictures.name(static_cast<std::size_t>(largest - pictures.entries().begin()));
  ASSIGN_OR_RETURN(const auto given, read_class_names(folder));
  if (given.has_value() && largest->label >= given->size()) {
    return fail("--data", folder,
                fmt::format("picture {} has label {}, but there {} {}", named, largest->label,
                            given->size() == 1 ? "is" : "are", counted(given->size(), "class name")),
                "correcting that label, or adding its class name", ErrorKind::BadData);
  }
  if (given.has_value()) {
    return *given;
  }
  // Names and a model's last layer use memory for each class.
  constexpr std::size_t kClassesWithoutPictures = 100'000;
  if (largest->label >= std::max(pictures.size(), kClassesWithoutPictures)) {
    return fail("--data", folder,
                fmt::format("picture {} has label {}, but there {} only {}", named, largest->label,
                            pictures.size() == 1 ? "is" : "are", counted(pictures.size(), "picture")),
                "correcting that label, or adding a classes.txt that names every class", ErrorKind::BadData);
  }
  std::vector<std::string> names;
  for (std::uint32_t label = 0; label <= largest->label; ++label) {
    names.push_back(std::to_string(label));
  }
  return names;
}

Result<std::vector<std::string>> class_names_in(const std::string& path) {
  auto names = read_class_file(path);
  if (!names) {
    Error error = names.error();
    error.setting = "--class-names";
    return error;
  }
  if (!*names || (*names)->empty()) {
    return fail("--class-names", path, *names ? "names no class" : "does not exist", "writing one name a line",
                *names ? ErrorKind::BadData : ErrorKind::NoInput);
  }
  std::set<std::string> seen;
  for (const std::string& name : **names) {
    if (!seen.insert(name).second) {
      return fail("--class-names", path, fmt::format("names '{}' twice", name), "removing one of them",
                  ErrorKind::BadData);
    }
  }
  return **std::move(names);
}

std::string class_difference(const std::vector<std::string>& train, const std::vector<std::string>& valid) {
  const bool lacks_the_last = valid.size() <= train.size() && are_numbers(train) && are_numbers(valid);
  if (valid == train || lacks_the_last) {
    return "";
  }
  const std::string lacking = missing_text(train, valid);
  const std::string more = missing_text(valid, train);
  if (lacking.empty() && more.empty()) {
    return "has them in another order";
  }
  const std::string other_side = more.empty() ? "" : "has " + more + ", which the training set lacks";
  return lacking.empty() ? other_side : "lacks " + lacking + (more.empty() ? "" : ", and " + other_side);
}

}  // namespace rollcall::data
