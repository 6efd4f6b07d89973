#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/sources/sample_index.h"

namespace rollcall::data {

/// The files that may name the classes of shards in `folder`: class_names.json (a list of texts), else classes.txt (one
/// a line), beside them; for a folder that is called train or val, valid, validation also beside that folder.
[[nodiscard]] std::vector<std::string> files_with_class_names(const std::string& folder);

/// Names of the labels of shards in `folder`: from the first of those files that is there, else the numbers themselves.
/// Errors: NoInput: a file cannot be read; BadData: it is none, a label has no name in it; without a file a label that
/// leaves most classes without a picture.
[[nodiscard]] Result<std::vector<std::string>> class_names_of_labels(const std::string& folder,
                                                                     const SampleIndexBuilder& pictures);

/// In what the classes of a validation set differ from the training set's, in words that follow "the validation set":
/// "lacks dog, wolf and 3 more, and has cat, which the training set lacks". Empty where each label means the same: the
/// classes are the same, or numbers of which validation lacks the last.
[[nodiscard]] std::string class_difference(const std::vector<std::string>& train,
                                           const std::vector<std::string>& valid);

}  // namespace rollcall::data
