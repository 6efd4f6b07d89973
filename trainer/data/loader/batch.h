#pragma once

#include <torch/torch.h>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/workspace.h"

namespace rollcall::data {

/// One rank's samples of one step, n of them. Owns its tensors together with the loader, which writes them anew only
/// when nobody else holds them.
struct Batch {
  at::Tensor images;         ///< float32 or bfloat16 [n, 3, image_size, image_size], memory format channels_last
  at::Tensor labels;         ///< int64 [n]
  at::Tensor second_labels;  ///< int64 [n]: with mixing, the label that has the rest of the weight; else undefined
  double label_weight = 1;   ///< of labels; 1 - label_weight is second_labels'
  at::Tensor counted;        ///< bool [n]; false for padding and for what stands in for a bad sample
  std::int64_t step = 0;
  std::vector<std::string> bad;  ///< one message for each sample that could not be read
  StageTimes times;              ///< what reading it cost, of all workers together
};

}  // namespace rollcall::data
