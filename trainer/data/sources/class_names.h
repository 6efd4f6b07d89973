#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/sources/sample_index.h"

namespace rollcall::data {

/// Returns the files that may name the classes of shards in `folder`: class_names.json (a list of strings), then
/// classes.txt (one name per line) beside the shards. If the folder is named train, val, valid or validation, the same
/// files beside that folder follow.
[[nodiscard]] std::vector<std::string> files_with_class_names(const std::string& folder);

/// Returns the names of the labels of shards in `folder`: from the first of those files that exists, else the numbers
/// themselves. Errors: NoInput: a file cannot be read; BadData: a file is invalid or does not name a label; without a
/// file, a label that leaves most classes without pictures.
[[nodiscard]] Result<std::vector<std::string>> names_of_labels(const std::string& folder,
                                                               const SampleIndexBuilder& pictures);

/// Returns the names in a file: a JSON list of strings (at most 2^24), or one name a line if the file's name ends in
/// .txt. Errors, of setting --class-names: NoInput: it cannot be read; BadData: it is invalid, names no class or a
/// class twice.
[[nodiscard]] Result<std::vector<std::string>> class_names_in(const std::string& path);

/// Returns how the classes of a validation set differ from those of the training set, in words that follow "the
/// validation set": "lacks dog, wolf and 3 more, and has cat, which the training set lacks". Empty if each label means
/// the same: the classes are equal, or they are numbers and validation lacks only the last ones.
[[nodiscard]] std::string class_difference(const std::vector<std::string>& train,
                                           const std::vector<std::string>& valid);

}  // namespace rollcall::data
