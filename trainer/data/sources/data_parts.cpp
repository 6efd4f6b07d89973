#include "trainer/data/sources/data_parts.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "trainer/data/sources/left_out.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

using Part = std::optional<std::string>;

constexpr std::array kTrainNames{"train"};
constexpr std::array kValidNames{"val", "valid", "validation"};
constexpr const char* kTest = "test";  // a test set, which is never read

/// Finds a part of the data in `folder` under one of its names. Errors (NoInput): a link of such a name without a
/// target, since without that part the folder would be read as something else.
Result<Part> find_part(const fs::path& folder, std::span<const char* const> names) {
  for (const char* const name : names) {
    const fs::path part = folder / name;
    const fs::path packed = part.string() + ".h5";
    const fs::path list = part.string() + ".csv";
    std::error_code ignored;
    if (fs::is_directory(part, ignored)) {
      return Part(part.string());
    }
    if (fs::is_regular_file(packed, ignored)) {
      return Part(packed.string());
    }
    if (fs::is_regular_file(list, ignored)) {
      return Part(list.string());
    }
    for (const fs::path& path : {part, packed, list}) {
      if (fs::is_symlink(path, ignored) && !fs::exists(path, ignored)) {
        return fail("--data", path.string(), "is a link whose target cannot be reached",
                    "restoring its target, or removing the link", ErrorKind::NoInput);
      }
    }
  }
  return Part();
}

/// Finds entries whose names are those of parts in another case: "Train", "VAL"; also "Test" as a test set.
DataParts parts_in_other_case(const std::string& folder) {
  DataParts found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_packed = name.ends_with(".h5") || name.ends_with(".H5");
    const std::string lower = lower_case(is_packed ? name.substr(0, name.size() - 3) : name);
    std::error_code ignored;
    if (!is_packed && !entry->is_directory(ignored)) {
      continue;
    }
    if (is_train_part(lower)) {
      found.train = name;
    } else if (is_valid_part(lower) || lower == kTest) {
      found.valid = name;
    }
  }
  return found;
}

/// Returns whether "valid" and "invalid" are two classes.
bool is_class_beside_another(const fs::path& folder, const std::string& part) {
  std::error_code ignored;
  return fs::path(part).filename() == "valid" && fs::is_directory(folder / "invalid", ignored);
}

Error missing(const std::string& folder, const std::string& reason, const Part& in_other_case,
              const std::string& wanted) {
  return fail(
      "--data", folder, "holds " + reason,
      in_other_case ? "renaming " + *in_other_case + " to " + wanted : "adding it, or naming only the folder to split",
      ErrorKind::NoInput);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Returns whether a word of a name, which consists of letters, is the name of a part: first of training, second of any
/// other.
std::pair<bool, bool> parts_in_name(const std::string& name) {
  std::pair<bool, bool> found;
  std::string word;
  for (const char c : name + '.') {
    if (is_letter(c)) {
      word += c;
      continue;
    }
    const std::string part = lower_case(std::exchange(word, ""));
    found.first |= is_train_part(part);
    found.second |= is_valid_part(part) || part == kTest;
  }
  return found;
}

/// Returns the pattern of a shard's name: "train-*.tar" for "train-000.tar".
std::string pattern_of(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit || !pattern.ends_with('*')) {
      pattern += is_digit ? '*' : c;
    }
  }
  return pattern;
}

}  // namespace

bool is_train_part(const std::string& name) { return std::ranges::find(kTrainNames, name) != kTrainNames.end(); }
bool is_valid_part(const std::string& name) { return std::ranges::find(kValidNames, name) != kValidNames.end(); }

Result<DataParts> find_parts(const std::string& folder) {
  const Result<Part> train = find_part(folder, kTrainNames);
  ASSIGN_OR_RETURN(const Part valid, train ? find_part(folder, kValidNames) : Result<Part>(train.error()));
  DataParts parts{.train = *train, .valid = valid};
  if (!parts.train && parts.valid && is_class_beside_another(folder, *parts.valid)) {
    return DataParts{};
  }
  if (parts.train && parts.valid) {
    return parts;
  }
  const DataParts others = parts_in_other_case(folder);
  if (parts.train) {
    return missing(folder, "train, but not val, valid or validation", others.valid, "val");
  }
  if (parts.valid) {
    return missing(folder, fs::path(*parts.valid).filename().string() + ", but not train", others.train, "train");
  }
  if (others.train && others.valid) {
    return fail("--data", folder,
                "holds " + *others.train + " and " + *others.valid + ", which must be named train and val",
                "renaming the two, or naming only the folder to split", ErrorKind::NoInput);
  }
  return parts;
}

Result<void> check_one_part(const std::string& folder, const std::vector<std::string>& shards) {
  std::string train;
  std::string other;
  for (const std::string& path : shards) {
    const std::string name = fs::path(path).filename().string();
    if (const auto [is_train, is_other] = parts_in_name(name); is_train != is_other) {
      (is_train ? train : other) = pattern_of(name);
    }
  }
  if (train.empty() || other.empty()) {
    return {};
  }
  return fail("--data", folder, "holds shards of two sets, " + train + " and " + other,
              "--data='" + (fs::path(folder) / train).string() + "' to validate on a part of these, or moving " +
                  train + " and " + other + " into folders train and val there",
              ErrorKind::NoInput);
}

}  // namespace rollcall::data
