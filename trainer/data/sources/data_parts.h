#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::data {

/// Names of the parts of a data set: "train"; "val", "valid" or "validation".
[[nodiscard]] bool is_train_part(const std::string& name);
[[nodiscard]] bool is_valid_part(const std::string& name);

/// Where in `folder` the two parts are, each a folder or a packed file (NAME.h5). Neither: the folder is no such pair.
struct DataParts {
  std::optional<std::string> train;
  std::optional<std::string> valid;
};

/// Errors (NoInput): one of the two is missing, also where its name is there in another case, such as Train beside Val
/// (as classes the two would be one training set); a link to one leads nowhere. A class `valid` beside a class
/// `invalid` is no part.
[[nodiscard]] Result<DataParts> find_parts(const std::string& folder);

/// Error (NoInput) where the shards of one folder are of two parts by the words of their names, as train-000.tar and
/// val-000.tar are (or test-000.tar): one training set they are not.
[[nodiscard]] Result<void> check_one_part(const std::string& folder, const std::vector<std::string>& shards);

}  // namespace rollcall::data
