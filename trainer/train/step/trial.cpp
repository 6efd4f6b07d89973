#include "trainer/train/step/trial.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>

#include "trainer/distributed/process_group/collectives.h"
#include "trainer/metrics/human_numbers.h"
#include "trainer/optim/optimizer_kind.h"
#include "trainer/train/checkpoints/checkpoint_writer.h"
#include "trainer/train/object_collectives.h"
#include "trainer/train/observer/meters.h"
#include "trainer/train/outcome.h"
#include "trainer/train/process.h"
#include "trainer/train/step/drop.h"
#include "trainer/train/step/loss.h"
#include "trainer/train/step/training.h"

namespace rollcall::train {
namespace {

constexpr std::int64_t kMostSteps = 20;
constexpr double kMostSeconds = 10;
constexpr std::int64_t kFewImages = 2;  // batch norm needs more than one
constexpr std::int64_t kMoreImages = 8;

// The range test of learning rates: Smith, "Cyclical Learning Rates for Training Neural Networks", arXiv 1506.01186.
constexpr int kRangeSteps = 100;
constexpr double kFirstRate = 1e-6;
constexpr double kLastRate = 10;
constexpr double kSmoothing = 0.9;
constexpr double kDiverged = 3;  ///< times the lowest loss

/// Begins a new peak of this process's resident memory (proc(5), clear_refs).
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

std::uint64_t bytes_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.nbytes() : 0; }

/// Steps of a training of which nothing is kept. Its members are the training, and what it has measured.
class Trial {
 public:
  Trial(const config::TrainConfig& config, const JobContext& context) : config_(config), context_(context) {}

  Result<TrialResult> run() {
    RETURN_IF_ERROR(set_up());
    RETURN_IF_ERROR(check_memory());
    RETURN_IF_ERROR(everywhere(context_.process_group, start_loading()));
    RETURN_IF_ERROR(take_steps());
    RETURN_IF_ERROR(add_up());
    return result_;
  }

  Result<void> test_learning_rates(const std::function<void(const RangePoint&)>& tested) {
    RETURN_IF_ERROR(set_up());
    RETURN_IF_ERROR(everywhere(context_.process_group, start_loading()));
    // --lr is the rate of one rank and micro-batch, and the optimizer's that of a step.
    const double scale = training_.schedule.learning_rate / config_.optim.optimizer.learning_rate;
    double smoothed = 0;
    double best = 0;
    for (int step = 0; step < kRangeSteps; ++step) {
      const double rate = kFirstRate * std::pow(kLastRate / kFirstRate, step / (kRangeSteps - 1.0));
      optim::set_learning_rate(*training_.optimizer, rate * scale, training_.rate_factors);
      RETURN_IF_ERROR(take_step());
      ASSIGN_OR_RETURN(const double loss, loss_of_ranks());
      smoothed = kSmoothing * smoothed + (1 - kSmoothing) * loss;
      const double shown = smoothed / (1 - std::pow(kSmoothing, step + 1));
      if (!std::isfinite(shown) || (step > 0 && shown > kDiverged * best)) {
        break;
      }
      best = step == 0 ? shown : std::min(best, shown);
      tested({.learning_rate = rate, .loss = shown});
    }
    return {};
  }

 private:
  Result<void> set_up() {
    Result<Training> made = make_training(config_, context_);
    RETURN_IF_ERROR(everywhere(context_.process_group, made));
    training_ = *std::move(made);
    RETURN_IF_ERROR(everywhere(context_.process_group, load_weights()));
    for (const at::Tensor& parameter : training_.model->parameters()) {
      result_.parameters += parameter.numel();
      model_bytes_ += bytes_of(parameter);
    }
    for (const at::Tensor& buffer : training_.model->buffers()) {
      model_bytes_ += bytes_of(buffer);
    }
    RETURN_IF_ERROR(everywhere(context_.process_group, add_replica(training_, config_, context_)));
    RETURN_IF_ERROR(everywhere(context_.process_group, add_optimizer(training_, config_, context_)));
    RETURN_IF_ERROR(everywhere(context_.process_group, warm_up(training_, config_, context_)));
    training_.model->train();
    loss_ = torch::zeros({}, context_.device.options());
    batches_ = virtual_ranks(config_, context_).mine * config_.grad_accumulation();
    return {};
  }

  /// Loads the weights of --init-from.
  Result<void> load_weights() {
    const std::string& path = config_.checkpoint.init_from;
    if (path.empty()) {
      return {};
    }
    CheckpointWriter ranks(config_.checkpoint, context_);
    ASSIGN_OR_RETURN(auto* const group, ranks.group());
    const auto loaded = checkpoint::init_from(path, *training_.model, nullptr, config_.checkpoint.load.verify, *group);
    return loaded ? Result<void>() : Result<void>(loaded.error());
  }

  /// Reads an epoch with images of the final size.
  Result<void> start_loading() {
    training_.data.train_sampler->set_epoch(static_cast<std::uint64_t>(config_.run.epochs) + epoch_++);
    return training_.data.train_loader->start(*training_.data.train_sampler);
  }

  /// Returns this rank's next batch. An error is its own: ranks may have different numbers of batches.
  Result<data::Batch> next_batch() {
    ASSIGN_OR_RETURN(std::optional<data::Batch> read, training_.data.train_loader->next());
    if (!read) {  // the epoch has few steps
      RETURN_IF_ERROR(start_loading());
      ASSIGN_OR_RETURN(read, training_.data.train_loader->next());
    }
    return *std::move(read);
  }

  void forward_backward(const data::Batch& read, bool last) {
    const data::Batch batch = training_.data.prefetcher->to_device(read);
    const at::Tensor kept = draw_kept(training_.model->drop_rates(), *training_.data.train_sampler, read.step,
                                      batch.images.size(0), context_.device);
    training_.replica->set_gradient_sync(last);
    const at::Tensor loss = training_.replica->forward([&] {
      const at::Tensor outputs = outputs_of(training_, config_, context_, batch.images, kept);
      return losses_of(outputs, batch, config_.optim.loss, training_.class_weights).mean();
    });
    (loss / config_.grad_accumulation()).backward();
    loss_ = loss_ + loss.detach();
  }

  void update() {
    training_.replica->finish_gradients();
    if (config_.optim.clip_grad_norm > 0) {
      (void)training_.replica->clip_grad_norm(config_.optim.clip_grad_norm);
    }
    training_.optimizer->step();
  }

  /// Runs LibTorch code. Errors: what it throws.
  Result<void> guarded(const std::function<void()>& work) {
    const std::optional<Outcome> stop = catch_training_errors(context_, work);
    return stop ? Result<void>(stop->failure->error) : Result<void>();
  }

  /// Returns the peak memory of a step with so many images.
  Result<std::uint64_t> peak_with(std::int64_t images) {
    const std::int64_t size = config_.data.datasets.image_size;
    const data::Batch batch{
        .images = torch::zeros({images, 3, size, size}, data::scalar_type(training_.data.train_loading.pixel_type)),
        .labels = torch::zeros({images}, at::kLong),
        .counted = torch::ones({images}, at::kBool)};
    reset_peak();
    RETURN_IF_ERROR(guarded([&] {
      training_.replica->zero_grad();
      forward_backward(batch, true);
      update();
    }));
    return peak_memory();
  }

  /// Returns the bytes of the batches that the training loader holds.
  [[nodiscard]] double loaded_bytes() const {
    const auto& loading = training_.data.train_loading;
    const double pixels =
        3.0 * static_cast<double>(config_.data.datasets.image_size * config_.data.datasets.image_size);
    const double bytes =
        pixels * static_cast<double>(config_.batch_size()) * static_cast<double>(data::bytes_of(loading.pixel_type));
    return bytes * (static_cast<double>(loading.workers) * loading.prefetch + 1);
  }

  /// Error: a batch does not fit into this rank's part of the node's memory, going by two smaller ones.
  Result<void> check_memory() {
    const std::int64_t whole = config_.batch_size();
    const bool is_exact = config_.parallel.replica.exact.virtual_ranks > 0;  // has several batches in each step
    if (context_.device.type() != at::kCPU || is_exact || context_.share.memory == 0 || whole < 2 * kMoreImages) {
      return {};
    }
    ASSIGN_OR_RETURN(std::uint64_t few, peak_with(kFewImages));
    ASSIGN_OR_RETURN(few, peak_with(kFewImages));  // the first also made the state of the optimizer
    ASSIGN_OR_RETURN(const std::uint64_t more, peak_with(kMoreImages));
    const double begin = static_cast<double>(few);
    const double each = std::max(0.0, static_cast<double>(more) - begin) / (kMoreImages - kFewImages) +
                        loaded_bytes() / static_cast<double>(whole);
    const auto limit = static_cast<double>(context_.share.memory);
    most_images_ = static_cast<std::int64_t>(std::clamp((limit - begin) / each, 0.0, 1e9));
    const double needed = begin + each * static_cast<double>(whole);
    if (needed <= limit) {
      return everywhere(context_.process_group, Result<void>());
    }
    return everywhere(context_.process_group,
                      Result<void>(fail("--batch-size", std::to_string(whole),
                                        fmt::format("needs about {} of memory on each rank, which may use {}",
                                                    metrics::human_bytes(static_cast<std::uint64_t>(needed)),
                                                    metrics::human_bytes(context_.share.memory)),
                                        most_images_ >= 1 ? fmt::format("--batch-size={}", most_images_)
                                                          : "requesting more memory (--mem)")));
  }

  Result<void> take_step() {
    for (std::int64_t done = 1; done <= batches_; ++done) {
      ASSIGN_OR_RETURN(const data::Batch batch, next_batch());
      RETURN_IF_ERROR(guarded([&] {
        if (done == 1) {
          training_.replica->zero_grad();
          loss_ = torch::zeros({}, context_.device.options());
        }
        forward_backward(batch, done == batches_);
      }));
    }
    return guarded([&] {
      update();
      step_loss_ = loss_.item<double>();  // waits for a device
    });
  }

  Result<void> take_steps() {
    RETURN_IF_ERROR(take_step());  // the first takes longer
    Meters meters(context_);
    (void)meters.take_joules();
    const double begun = seconds_now();
    bool enough = false;
    while (!enough) {
      RETURN_IF_ERROR(take_step());
      result_.steps += 1;
      at::Tensor ends =
          torch::tensor({result_.steps == kMostSteps || seconds_now() - begun > kMostSeconds ? 1 : 0}, at::kInt);
      RETURN_IF_ERROR(process_group::all_reduce_sum(context_.process_group, ends));
      enough = ends.item<int>() > 0;
    }
    const auto steps = static_cast<double>(result_.steps);
    result_.seconds = (seconds_now() - begun) / steps;
    if (const std::optional<double> joules = meters.take_joules()) {
      nodes_measured_ = 1;
      result_.joules = *joules / steps;
    }
    return {};
  }

  /// Returns the mean loss of all ranks' batches in the last step.
  Result<double> loss_of_ranks() {
    at::Tensor sums = torch::tensor({step_loss_, static_cast<double>(batches_)}, at::kDouble);
    RETURN_IF_ERROR(process_group::all_reduce_sum(context_.process_group, sums));
    return sums[0].item<double>() / sums[1].item<double>();
  }

  /// Returns the bytes that a checkpoint of the whole training has, going by this rank's part of it.
  [[nodiscard]] std::uint64_t checkpoint_bytes() const {
    std::uint64_t parameters = 0;
    std::uint64_t moments = 0;
    const optim::StateSink sink{
        .tensor = [&](const std::string&, const at::Tensor& tensor) { moments += bytes_of(tensor); },
        .number = [](const std::string&, std::int64_t) {}};
    for (const auto& group : training_.optimizer->param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        parameters += bytes_of(parameter);
      }
    }
    for (const auto& [parameter, state] : training_.optimizer->state()) {
      optim::kind_of(*training_.optimizer)->state.save(*state, sink);
    }
    const double part = parameters > 0 ? static_cast<double>(moments) / static_cast<double>(parameters) : 0;
    const std::uint64_t models = config_.optim.ema_decay > 0 ? 2 : 1;  // the weights, and their average
    return models * model_bytes_ + static_cast<std::uint64_t>(part * 4 * static_cast<double>(result_.parameters));
  }

  /// Completes the result with what the ranks measured.
  Result<void> add_up() {
    struct OfRank {
      double joules, nodes;
      std::uint64_t memory, limit;
      std::int64_t most_images;
    };
    const bool on_cpu = context_.device.type() == at::kCPU;
    const std::optional<device::MemoryPeak> on_device = device::memory_peak(context_.device);
    const OfRank mine{result_.joules, nodes_measured_,
                      on_device ? on_device->reserved
                      : on_cpu  ? peak_memory()
                                : 0,
                      on_cpu ? context_.share.memory : 0, most_images_};
    std::vector<std::uint8_t> bytes(sizeof mine);
    std::memcpy(bytes.data(), &mine, sizeof mine);
    ASSIGN_OR_RETURN(const auto all, process_group::all_gather_bytes(context_.process_group, bytes));
    OfRank sums{0, 0, 0, mine.limit, mine.most_images};
    for (const auto& other_bytes : all) {
      OfRank other{};
      std::memcpy(&other, other_bytes.data(), sizeof other);
      sums = {sums.joules + other.joules, sums.nodes + other.nodes, std::max(sums.memory, other.memory),
              std::min(sums.limit, other.limit), std::min(sums.most_images, other.most_images)};
    }
    const auto known = [](auto number) { return number > 0 ? std::optional(number) : std::nullopt; };
    result_.joules = sums.nodes == context_.num_nodes ? sums.joules : 0;
    result_.memory = known(sums.memory);
    result_.memory_limit = known(sums.limit);
    result_.largest_batch = known(sums.most_images);
    const data::Datasets& data = training_.data.datasets;
    result_.training_images = data.train->size();
    result_.validation_images = data.valid->size();
    result_.classes = config_.model.num_classes > 0 ? config_.model.num_classes : data.num_classes;
    result_.images = config_.batch_size() * config_.grad_accumulation() * virtual_ranks(config_, context_).all;
    result_.total_steps = training_.schedule.total_steps;
    result_.checkpoint_bytes = checkpoint_bytes();
    return {};
  }

  const config::TrainConfig& config_;
  const JobContext& context_;
  Training training_;
  TrialResult result_;
  std::int64_t batches_ = 0;  ///< batches of this rank in a step
  at::Tensor loss_;           ///< sum of the losses of this rank's batches of the step in progress
  double step_loss_ = 0;      ///< that of the last step
  std::uint64_t epoch_ = 0;
  std::uint64_t model_bytes_ = 0;  ///< of the whole model
  std::int64_t most_images_ = 0;   ///< of a batch that fits, about; 0: unknown
  double nodes_measured_ = 0;      ///< 1: this rank has measured the energy of its node
};

}  // namespace

Result<void> test_learning_rates(const config::TrainConfig& config, const JobContext& context,
                                 const std::function<void(const RangePoint&)>& tested) {
  return Trial(config, context).test_learning_rates(tested);
}

std::optional<double> suggested_learning_rate(const std::vector<RangePoint>& points) {
  constexpr std::size_t kUnsettled = 10;  // the smoothed loss begins with few values
  constexpr double kFalls = 0.98;         // of the first loss: less is noise
  std::optional<double> steepest;
  double slope = 0;
  for (std::size_t i = kUnsettled; i + 1 < points.size(); ++i) {
    if (const double here = points[i + 1].loss - points[i - 1].loss; here < slope) {
      slope = here;
      steepest = points[i].learning_rate;
    }
  }
  const auto lowest = std::ranges::min_element(points, {}, &RangePoint::loss);
  return lowest != points.end() && lowest->loss < kFalls * points.front().loss ? steepest : std::nullopt;
}

Result<TrialResult> run_trial(const config::TrainConfig& config, const JobContext& context) {
  return Trial(config, context).run();
}

}  // namespace rollcall::train
