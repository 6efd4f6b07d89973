#pragma once

#include <torch/torch.h>
#include <cstdint>
#include <string>
#include <vector>

namespace rollcall::data {

/// One rank's samples of one step, n of them. Owns its tensors.
struct Batch {
  at::Tensor images;   ///< float32 [n, 3, image_size, image_size], memory format channels_last
  at::Tensor labels;   ///< int64 [n]
  at::Tensor counted;  ///< bool [n]; false for padding and for what stands in for a bad sample
  std::int64_t step = 0;
  std::vector<std::string> bad;  ///< one message for each sample that could not be read
};

}  // namespace rollcall::data
