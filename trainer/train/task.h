#pragma once

#include <memory>
#include <string>

#include <torch/torch.h>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/model/resnet.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"
#include "trainer/train/data_pipeline.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What is trained and on what, made from the settings; the same on every rank except for the rank's part of the data.
struct Task {
  DataPipeline data;
  model::ResNet model{nullptr};
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  optim::ScheduleOptions schedule;
  double label_smoothing = 0;
  std::int64_t epochs = 0;
  std::int64_t max_steps = 0;     ///< 0: no limit
  std::int64_t valid_epochs = 0;  ///< validate after so many epochs; 0: never
};

/// Errors: data set missing, empty class, batch larger than the data, optimizer parameters out of range, unknown model.
[[nodiscard]] Result<Task> make_task(const settings::Settings& settings, const World& world,
                                     const Environment& environment);

}  // namespace rollcall::train
