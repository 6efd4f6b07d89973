#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/distributed/ddp/replica.h"
#include "trainer/model/image_classifier.h"
#include "trainer/optim/schedule.h"
#include "trainer/optim/weight_average.h"
#include "trainer/precision/loss_scaler.h"
#include "trainer/torch.h"
#include "trainer/train/data/data_pipeline.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// The model, its data and its optimizer, created from the configuration by the functions below in their order. The
/// same on every rank except for the rank's part of the data and, if it is sharded, of the model.
struct Training {
  DataPipeline data;
  model::Model model;
  at::Tensor class_weights;  ///< float32 [outputs] on the device; undefined: none (--class-weights)
  precision::LossScaler loss_scaler{false};
  std::unique_ptr<parallel::Replica> replica;          ///< DDP or FSDP replica of `model`
  std::unique_ptr<torch::optim::Optimizer> optimizer;  ///< of the replica's parameters
  std::optional<optim::WeightAverage> average;         ///< of the replica's parameters (--ema); unset: none
  std::vector<double> rate_factors;                    ///< of the optimizer's groups (--lr-factors)
  optim::ScheduleOptions schedule;
  std::int64_t steps_of_epoch = 0;  ///< of a whole epoch
};

/// Parts of a training that a process has before it joins a world.
struct Prepared {
  model::Model model = {};                      ///< null: to be created
  std::optional<data::Datasets> datasets = {};  ///< unset: to be opened
};

/// Creates data, model and loss scaler, using the parts in `ready`. Collective. Errors: the data set is missing, a
/// class is empty, a batch is larger than the data, the model is unknown, or this machine cannot train in this
/// precision.
[[nodiscard]] Result<Training> make_training(const config::TrainConfig& config, const JobContext& context,
                                             Prepared ready = {});

/// Creates the replica with rank 0's parameters on all ranks, unless they are `filled` by something else.
/// `gradient_order`: of a replica of the previous world; empty: call warm_up(). Collective. Errors: those of
/// parallel::make_replica().
[[nodiscard]] Result<void> add_replica(Training& training, const config::TrainConfig& config, const JobContext& context,
                                       bool filled = false, std::vector<std::int64_t> gradient_order = {});

/// Creates the optimizer, its schedule and the average of the weights. Errors (Usage): parameters of the optimizer are
/// out of range, or --lr-factors names layers that the model does not train.
[[nodiscard]] Result<void> add_optimizer(Training& training, const config::TrainConfig& config,
                                         const JobContext& context);

/// Prepares a standby process: creates model and data, and runs one step with images of zeros, which is undone, so that
/// libraries initialise what they need on first use. Only for a process that will compute on the CPU, because LibTorch
/// does not load a device's libraries after it was asked for a device. Errors: those of make_training().
[[nodiscard]] Result<Prepared> prepare_standby(const config::TrainConfig& config);

/// Returns the model's outputs for images on its device: float32 [images, classes], under autocast if configured.
/// `kept`: see ResNetImpl::forward(). Throws what LibTorch throws.
[[nodiscard]] at::Tensor outputs_of(Training& training, const config::TrainConfig& config, const JobContext& context,
                                    const at::Tensor& images, const at::Tensor& kept = {});

/// Does the same for a model outside of a training. `input_type`: the type of its images.
[[nodiscard]] at::Tensor outputs_of(model::ImageClassifier& model, at::ScalarType input_type,
                                    const config::ModelConfig& config, const device::Device& device,
                                    const at::Tensor& images, const at::Tensor& kept = {});

/// Makes the network of the configuration with so many outputs, or loads its script, on the CPU. Errors: those of
/// model::make_model() and model::load_script().
[[nodiscard]] Result<model::Model> make_model(const config::TrainConfig& config, std::int64_t outputs);

/// Returns the buffers of the model, and then those of the average of its weights: what a step changes before it
/// updates the parameters.
[[nodiscard]] std::vector<at::Tensor> statistics_of(const torch::nn::Module& model,
                                                    const std::optional<optim::WeightAverage>& average);

/// Runs a pass over synthetic images that fixes the order of the replica's buckets; see Replica::warm_up(). Collective.
/// Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<void> warm_up(Training& training, const config::TrainConfig& config, const JobContext& context);

}  // namespace rollcall::train
