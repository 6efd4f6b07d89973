#pragma once

#include <memory>
#include <string>

#include <torch/torch.h>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/distributed/ddp/replica.h"
#include "trainer/model/resnet.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"
#include "trainer/precision/autocast.h"
#include "trainer/precision/loss_scaler.h"
#include "trainer/train/data_pipeline.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What is trained and on what, made from the settings; the same on every rank except for the rank's part of the data.
struct Task {
  DataPipeline data;
  model::ResNet model{nullptr};
  std::unique_ptr<torch::optim::Optimizer> optimizer;  ///< null until add_optimizer()
  optim::ScheduleOptions schedule;
  at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast;  ///< of weights and images
  precision::ComputeType compute_type;                              ///< nothing: float32
  precision::LossScaler loss_scaler{false};
  double label_smoothing = 0;
  double clip_grad_norm = 0;           ///< 0: do not
  std::int64_t grad_accumulation = 1;  ///< batches of a step
  std::int64_t epochs = 0;
  std::int64_t max_steps = 0;     ///< 0: no limit
  std::int64_t valid_epochs = 0;  ///< validate after so many epochs; 0: never
};

/// Errors: data set missing, empty class, batch larger than the data, unknown model, precision that this machine cannot
/// train in.
[[nodiscard]] Result<Task> make_task(const settings::Settings& settings, const World& world,
                                     const Environment& environment);

/// Adds the optimizer of what `replica`, made from the task's model, is to update, and the schedule. Errors (Usage):
/// optimizer parameters out of range.
[[nodiscard]] Result<void> add_optimizer(Task& task, const parallel::Replica& replica,
                                         const settings::Settings& settings, const World& world);

}  // namespace rollcall::train
