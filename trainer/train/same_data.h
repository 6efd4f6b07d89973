#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/data/datasets/datasets.h"

namespace rollcall::train {

/// What a checkpoint keeps of the data.
[[nodiscard]] checkpoint::DataParts data_of(const data::Datasets& datasets);

/// What is different, "60 images for validation, not 50", or an empty text. Pure.
[[nodiscard]] std::string difference_of(const checkpoint::DataParts& one, const checkpoint::DataParts& other);

/// Names the pictures that `now` has of kinds which earlier versions left out, to be put behind what is said of data
/// with more images than a checkpoint's training had; an empty text where there are none. Looks at each name: seconds
/// for many millions. Pure.
[[nodiscard]] std::string read_since_text(const data::Datasets& now);

/// Whether a checkpoint's training may go on with other data than it had: they differ in names or labels alone, and the
/// user has said so.
enum class OtherData { Refuse, Accept };

/// Compares the data of a checkpoint's training with what `given` (--data) is now: the number of all images, before
/// they are split, the classes' names (where they were more than numbers), the pictures' labels and names; those of the
/// validation images too, by which the best checkpoint is chosen. `warnings` gets what is accepted, and that a file of
/// an earlier version does not say. Pure.
///
/// Errors (Mismatch): another number of training images; other names or labels, or other validation images, where
/// OtherData::Refuse says so or the seed splits the data: pictures would be trained on that validated.
[[nodiscard]] Result<void> check_same_data(const checkpoint::DataParts& then, const data::Datasets& now,
                                           const std::string& given, OtherData other,
                                           std::vector<std::string>& warnings);

/// Whether the data of a checkpoint's training are known to have had other validation images than `now`, so that their
/// results cannot be compared. Pure.
[[nodiscard]] bool validates_otherwise(const checkpoint::DataParts& then, const data::Datasets& now);

}  // namespace rollcall::train
