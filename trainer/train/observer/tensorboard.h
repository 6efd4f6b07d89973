#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/metrics/metrics_writer.h"
#include "trainer/metrics/tensorboard/event_file.h"
#include "trainer/torch.h"

namespace rollcall::train {

/// What TensorBoard shows of a run: a file of events below the run's folder, one for each start. It reads what it is
/// given and changes none of it. Main thread only.
class TensorBoard {
 public:
  /// Creates the file in `tensorboard` below the run's folder. Errors: those of EventFile::create().
  [[nodiscard]] static Result<TensorBoard> create(const config::RunConfig& config);

  // Errors (InputOutput): disk full, quota.

  /// The curves, or the settings, that this record of metrics.jsonl tells of. It has its time already.
  [[nodiscard]] Result<void> write(const metrics::Record& record);

  /// Images as the model sees them, [n, 3, height, width] in main memory, of the step of this number: up to 16 as one
  /// picture. Only the first ones are shown; afterwards nothing is done.
  [[nodiscard]] Result<void> show_images(std::int64_t step, const at::Tensor& images);

  /// Whether the tensors of the step of this number are to be shown.
  [[nodiscard]] bool shows_tensors(std::int64_t step) const;
  /// Histograms of parameters and of the gradients that they have. `sharded`: they are this rank's parts only, and the
  /// tags say so.
  [[nodiscard]] Result<void> show_tensors(std::int64_t step, const torch::OrderedDict<std::string, at::Tensor>& named,
                                          bool sharded);

 private:
  TensorBoard(metrics::tensorboard::EventFile file, std::int64_t histogram_steps)
      : file_(std::move(file)), histogram_steps_(histogram_steps) {}

  metrics::tensorboard::EventFile file_;
  std::int64_t histogram_steps_;  ///< 0: none
  bool images_shown_ = false;
};

/// Up to 16 of `images` ([n, 3, height, width], float, normalised by ImageNet's mean and deviation) side by side, as
/// near to a square as they can be: uint8 [rows * height, columns * width, 3]. Of large ones every n-th pixel, so that
/// no side is longer than 2048. Undefined where there are none. Pure.
[[nodiscard]] at::Tensor image_grid(const at::Tensor& images);

}  // namespace rollcall::train
