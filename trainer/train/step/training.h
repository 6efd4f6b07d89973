#pragma once

#include <memory>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/distributed/ddp/replica.h"
#include "trainer/model/resnet.h"
#include "trainer/optim/schedule.h"
#include "trainer/precision/loss_scaler.h"
#include "trainer/torch.h"
#include "trainer/train/data/data_pipeline.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What is trained and on what, made from the configuration by the functions below, in their order; the same on every
/// rank except for the rank's part of the data and, where it is sharded, of the model.
struct Training {
  DataPipeline data;
  model::ResNet model{nullptr};
  precision::LossScaler loss_scaler{false};
  std::unique_ptr<parallel::Replica> replica;          ///< of the model
  std::unique_ptr<torch::optim::Optimizer> optimizer;  ///< of what the replica is to update
  optim::ScheduleOptions schedule;
  std::int64_t steps_of_epoch = 0;  ///< of a whole one
};

/// What a process has before it joins a world.
struct Ready {
  model::ResNet model = nullptr;                ///< null: it is to be made
  std::optional<data::Datasets> datasets = {};  ///< nothing: they are to be opened
};

/// Data, model and loss scaler; of `ready` what is there. Collective. Errors: data set missing, empty class,
/// batch larger than the data, unknown model, precision that this machine cannot train in.
[[nodiscard]] Result<Training> make_training(const config::TrainConfig& config, const World& world, Ready ready = {});

/// The replica, with rank 0's parameters on all ranks unless they are `filled` by something else. `gradient_order`:
/// what a replica of the world before said of it; empty: warm_up() is needed. Collective. Errors: those of
/// parallel::make_replica().
[[nodiscard]] Result<void> add_replica(Training& training, const config::TrainConfig& config, const World& world,
                                       bool filled = false, std::vector<std::int64_t> gradient_order = {});

/// The optimizer and its schedule. Errors (Usage): optimizer parameters out of range.
[[nodiscard]] Result<void> add_optimizer(Training& training, const config::TrainConfig& config, const World& world);

/// What a process makes that waits to take a place; one step with images of zeros, which is undone, has the libraries
/// make what they make at first use. For a process that will compute on the CPU: LibTorch does not take a device's
/// libraries any more once it has been asked for one. Errors: those of make_training().
[[nodiscard]] Result<Ready> rehearse(const config::TrainConfig& config);

/// What the model says of images where it computes: float32 [images, classes], under autocast where the configuration
/// asks for it. Throws what LibTorch throws.
[[nodiscard]] at::Tensor outputs_of(Training& training, const config::TrainConfig& config, const World& world,
                                    const at::Tensor& images);

/// A pass over made-up images that settles the order of the replica's buckets; see Replica::warm_up(). Collective.
/// Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<void> warm_up(Training& training, const config::TrainConfig& config, const World& world);

}  // namespace rollcall::train
