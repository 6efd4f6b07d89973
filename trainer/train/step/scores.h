#pragma once

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

#include "trainer/data/loader/loader.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// The outputs of a validation for images that may have several classes: five bytes for each image and class.
class Scores {
 public:
  /// Keeps the outputs, float32 [n, classes], of a batch whose labels are rows. Does nothing with other labels.
  void add(const at::Tensor& outputs, const data::Batch& batch);

  /// Returns the mean over the classes of their average precision over the images of all ranks, the same on each. A
  /// class without images counts as 0, as with scikit-learn. Collective. Throws what LibTorch throws, and
  /// CollectiveFailure if a peer was lost.
  [[nodiscard]] double mean_average_precision(const JobContext& context) const;

 private:
  std::vector<at::Tensor> outputs_;
  std::vector<at::Tensor> labels_;  ///< uint8
  std::vector<at::Tensor> counted_;
};

}  // namespace rollcall::train
