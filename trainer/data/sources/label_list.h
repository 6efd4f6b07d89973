#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/data/sources/source_indices.h"

namespace rollcall::data {

/// Returns whether a path has the ending of a list of labelled files, .csv.
[[nodiscard]] bool is_label_list(const std::string& path);

/// The part of the data that column `split` of a list names; it is the `shard` of a sample's entry.
enum class ListedPart : std::uint32_t { Unnamed, Train, Valid, Test };

/// Reads a CSV file (RFC 4180) whose header names the columns `path` (or `id`) and `label` (or `labels`), and perhaps
/// `split` (train, val, valid, validation or test); other columns are ignored. Each row is a picture: its path relative
/// to the file's folder, or to the folder beside it that has the file's name without .csv. The ending may be missing.
/// The samples have the order of the rows.
///
/// With `several`, blanks separate the names of classes, and the names of the tree's labels are such sets, sorted: see
/// LabelSets.
///
/// Errors name the row, of which the header is the first: NoInput: a picture does not exist; BadData: an unknown class
/// or part, a class twice, a wrong number of fields, an open quote, no row, no class, a column is missing.
[[nodiscard]] Result<ImageTree> read_label_list(const std::string& path, const ListOptions& options,
                                                SourceIndices& indices);

}  // namespace rollcall::data
