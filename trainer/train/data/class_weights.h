#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/datasets/datasets.h"

namespace rollcall::train {

/// Returns the weight of each of the model's `outputs` in the loss (--class-weights); empty without weights. An output
/// without a name or without training images has 1. Errors: Usage: the file does not give each class one positive
/// weight; NoInput: it cannot be read.
[[nodiscard]] Result<std::vector<float>> class_weights(const std::string& wanted, const data::Datasets& datasets,
                                                       std::int64_t outputs);

}  // namespace rollcall::train
