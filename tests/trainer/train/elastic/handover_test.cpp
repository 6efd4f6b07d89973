// Ranks of a new world continue with what those of the former one kept, which were not at the same point of a step.

#include "trainer/train/elastic/handover.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/multiproc.h"
#include "trainer/config/options.h"
#include "trainer/train/step/training.h"

namespace rollcall::train {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;

template <typename T>
T must(Result<T> result) {
  return result ? *std::move(result) : throw std::runtime_error(result.error().message());
}
void must(const Result<void>& result) { result ? void() : throw std::runtime_error(result.error().message()); }

config::TrainConfig config_in(const std::string& folder) {
  settings::Settings settings(config::trainer_table());
  for (const auto& [name, value] : std::map<std::string, std::string>{{"data", "fake"},
                                                                      {"model", "resnet20"},
                                                                      {"image-size", "32"},
                                                                      {"batch-size", "2"},
                                                                      {"optimizer", "adamw"},
                                                                      {"ema", "0.5"},
                                                                      {"checkpoint-dir", folder}}) {
    must(settings.set(name, value, "test"));
  }
  return must(config::make_train_config(settings, {}));
}

JobContext meeting_of(Rank& rank) {
  JobContext context;
  context.rank = rank.rank;
  context.world_size = rank.world_size;
  context.process_group = rank.make_group();
  return context;
}

/// `filled`: a model with values of its own.
Training training_of(const config::TrainConfig& config, const JobContext& context, model::Model filled = {}) {
  const bool is_filled = static_cast<bool>(filled);
  Training training = must(make_training(config, context, {.model = std::move(filled)}));
  must(add_replica(training, config, context, is_filled));
  must(add_optimizer(training, config, context));
  return training;
}

/// What a rank keeps that was lost in the first step after its forward pass, or after the whole step; in the order of
/// Steps.
InMemoryState kept_in_a_step(Training training, std::uint32_t rank, bool finishes) {
  const torch::NoGradGuard no_grad;
  InMemoryState kept{.model = training.model};
  kept.buffers_before = parallel::copies_of(statistics_of(*training.model, training.average));
  for (at::Tensor& buffer : training.model->buffers()) {
    buffer.add_(rank + 2);
  }
  training.average->update_buffers(0.5);
  if (finishes) {
    for (at::Tensor& parameter : training.model->parameters()) {
      parameter.mutable_grad() = torch::ones_like(parameter);
    }
    training.optimizer->step();
    training.average->update_parameters(0.5);
    kept.progress.global_step = 1;
    kept.buffers_before.clear();
  }
  kept.optimizer = std::move(training.optimizer);
  kept.average = std::move(training.average);
  return kept;
}

std::vector<at::Tensor> weights_of(const model::Model& model, const optim::WeightAverage& average) {
  std::vector<at::Tensor> weights = model->parameters();
  const std::vector<at::Tensor> averages = average.parameters().values();
  weights.insert(weights.end(), averages.begin(), averages.end());
  return weights;
}

bool equal(const std::vector<at::Tensor>& ones, const std::vector<at::Tensor>& others) {
  return std::ranges::equal(ones, others,
                            [](const at::Tensor& one, const at::Tensor& other) { return one.equal(other); });
}

/// Returns the training with which a rank of a new world continues that has kept this.
Training continued(Rank& rank, std::optional<InMemoryState> kept) {
  const config::TrainConfig config = config_in(rank.folder);
  const JobContext context = meeting_of(rank);
  const FoundInMemory found = must(find_in_memory(kept, PeerReplicas(), config, {}, context));
  MULTIPROC_CHECK(found.handover.has_value());
  Training training = training_of(config, context, kept->model);
  must(broadcast_state(*found.handover, kept, training, context));
  return training;
}

/// What rank `of` keeps; every rank can compute it, since all begin with the same weights.
InMemoryState kept_by(std::uint32_t of, bool finishes, const Rank& rank) {
  return kept_in_a_step(training_of(config_in(rank.folder), {}), of, finishes);
}

TEST(Handover, AStepThatNoRankFinishedLeavesNoTrace) {
  const auto ranks = spawn(2, [](Rank& rank) {
    const Training at_first = training_of(config_in(rank.folder), {});
    const Training training = continued(rank, kept_by(rank.rank, false, rank));
    MULTIPROC_CHECK(
        equal(weights_of(training.model, *training.average), weights_of(at_first.model, *at_first.average)));
    MULTIPROC_CHECK(
        equal(statistics_of(*training.model, training.average), statistics_of(*at_first.model, at_first.average)));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Handover, StatisticsAreThoseOfTheFirstRankAndWeightsOfOneThatFinishedTheStep) {
  const auto ranks = spawn(2, [](Rank& rank) {
    const InMemoryState first = kept_by(0, false, rank);
    const InMemoryState finished = kept_by(1, true, rank);
    const Training training = continued(rank, kept_by(rank.rank, rank.rank == 1, rank));
    MULTIPROC_CHECK(
        equal(weights_of(training.model, *training.average), weights_of(finished.model, *finished.average)));
    MULTIPROC_CHECK(
        equal(statistics_of(*training.model, training.average), statistics_of(*first.model, first.average)));
    MULTIPROC_CHECK(!equal(first.buffers_before, statistics_of(*first.model, first.average)));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::train
