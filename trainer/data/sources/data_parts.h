#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::data {

/// Return whether `name` is the name of a training or validation set: "train"; "val", "valid" or "validation".
[[nodiscard]] bool is_train_part(const std::string& name);
[[nodiscard]] bool is_valid_part(const std::string& name);

/// The paths of a folder's training and validation set, each a folder, a packed file (NAME.h5), or a list of
/// labels (NAME.csv). Both are unset if the
/// folder is not such a pair.
struct DataParts {
  std::optional<std::string> train;
  std::optional<std::string> valid;
};

/// Finds the training and the validation set in `folder`. Errors (NoInput): one of the two is missing, or has its name
/// in another case, such as Train beside Val (read as classes, the two would be one training set); a link to one has no
/// target. A class `valid` beside a class `invalid` is not a validation set.
[[nodiscard]] Result<DataParts> find_parts(const std::string& folder);

/// Returns an Error (NoInput) if the names of one folder's shards contain the names of two sets, such as train-000.tar
/// and val-000.tar (or test-000.tar): they are not one training set.
[[nodiscard]] Result<void> check_one_part(const std::string& folder, const std::vector<std::string>& shards);

}  // namespace rollcall::data
