#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/data/transforms/transforms.h"
#include "trainer/metrics/metrics_writer.h"
#include "trainer/metrics/tensorboard/event_file.h"
#include "trainer/torch.h"

namespace rollcall::train {

/// Writes a file of events for TensorBoard below the run's folder, one for each start. It changes none of its inputs.
/// Main thread only.
class TensorBoard {
 public:
  /// Creates the file in `tensorboard` below the run's folder. Errors: those of EventFile::create().
  [[nodiscard]] static Result<TensorBoard> create(const config::RunConfig& config);

  // Errors (InputOutput): disk full, quota.

  /// Writes the curves or settings of this record of metrics.jsonl, which already has its time.
  [[nodiscard]] Result<void> write(const metrics::Record& record);

  /// Writes up to 16 images of step `step` as one picture, as the model sees them: [n, 3, height, width] in main
  /// memory. Only the first call has an effect.
  [[nodiscard]] Result<void> show_images(std::int64_t step, const at::Tensor& images,
                                         const data::Normalisation& normalisation);

  /// Returns whether the tensors of step `step` are to be shown.
  [[nodiscard]] bool shows_tensors(std::int64_t step) const;
  /// Writes histograms of parameters and their gradients. `sharded`: they are this rank's parts only, which the tags
  /// say.
  [[nodiscard]] Result<void> show_tensors(std::int64_t step, const torch::OrderedDict<std::string, at::Tensor>& named,
                                          bool sharded);

 private:
  TensorBoard(metrics::tensorboard::EventFile file, std::int64_t histogram_steps)
      : file_(std::move(file)), histogram_steps_(histogram_steps) {}

  metrics::tensorboard::EventFile file_;
  std::int64_t histogram_steps_;  ///< 0: no histograms
  bool images_shown_ = false;
};

/// Arranges up to 16 of `images` ([n, 3, height, width], normalised float or uint8) in a grid that is as square as
/// possible: uint8 [rows * height, columns * width, 3]. Takes every n-th pixel of large images, so that no side exceeds
/// 2048. Undefined if there are no images. Pure.
[[nodiscard]] at::Tensor image_grid(const at::Tensor& images, const data::Normalisation& normalisation = {});

}  // namespace rollcall::train
