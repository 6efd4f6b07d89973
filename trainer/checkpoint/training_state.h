#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/checkpoint/state_parts.h"
#include "trainer/optim/weight_average.h"
#include "trainer/torch.h"

namespace rollcall::checkpoint {

/// Returns how a stored tensor (null: missing) differs from ours, or an empty text: "fc.bias is [10] in the file and
/// [4] in this model".
[[nodiscard]] std::string difference(const std::string& key, at::IntArrayRef sizes, at::ScalarType type,
                                     const format::ManifestEntry* stored);

/// Adds /model/... and /model_keys. `sharding` null: every rank has the whole model.
void add_model(StateParts& parts, const torch::nn::Module& model, const Sharding* sharding);

/// Plans to fill every tensor of `model`. Errors (Mismatch): a key is missing on one side, or shape or type differ; the
/// reason names the first.
[[nodiscard]] Result<void> plan_model(ReadPlan& plan, const torch::nn::Module& model, const Sharding* sharding,
                                      const OpenCheckpoint& stored);

/// Adds /optimizer/type, /optimizer/param_groups and /optimizer/state/<key>/... of an optimizer. `keys`: names of its
/// parameters, in the order of its groups. Errors (Internal): the optimizer is of an unknown kind, or the keys do not
/// match it.
[[nodiscard]] Result<void> add_optimizer(StateParts& parts, const torch::optim::Optimizer& optimizer,
                                         const std::vector<std::string>& keys, const Sharding* sharding);

/// New state and options of an optimizer, complete and checked but not in use yet.
struct OptimizerPlan {
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;  ///< one for each group
  std::vector<std::pair<void*, std::unique_ptr<torch::optim::OptimizerParamState>>> states;

  /// Replaces the optimizer's whole state. Call it once.
  void apply(torch::optim::Optimizer& optimizer);
};

/// Plans to restore what add_optimizer wrote; the values of the tensors arrive when `reads` is carried out. Errors:
/// Mismatch: kind, groups, parameters or shapes differ; BadData: a part is missing; Internal as of add_optimizer().
[[nodiscard]] Result<OptimizerPlan> plan_optimizer(ReadPlan& reads, const torch::optim::Optimizer& optimizer,
                                                   const std::vector<std::string>& keys, const Sharding* sharding,
                                                   const OpenCheckpoint& stored);

/// Adds /ema/...: the average of the weights. `sharding` as for add_model().
void add_average(StateParts& parts, const optim::WeightAverage& average, const Sharding* sharding);

/// Plans to fill `average`, of `model`. Returns false if there is none in the checkpoint. Errors (BadData): a tensor is
/// missing or has another shape.
[[nodiscard]] Result<bool> plan_average(ReadPlan& reads, const optim::WeightAverage& average,
                                        const torch::nn::Module& model, const Sharding* sharding,
                                        const OpenCheckpoint& stored);

/// Returns the state of LibTorch's default CPU generator.
[[nodiscard]] std::vector<std::byte> cpu_rng_state();
/// Restores that state. Errors (BadData): the bytes are not such a state.
[[nodiscard]] Result<void> set_cpu_rng_state(const std::vector<std::byte>& state);

/// Adds the generators' states of all ranks: /rng/rank_0000/cpu and so on. The bytes are not copied and must outlive
/// `parts`.
void add_rng(StateParts& parts, const std::vector<std::vector<std::byte>>& rng_per_rank);
/// Adds the state of this rank's generator, and the names of the other ranks' states.
void add_generator(StateParts& parts, std::uint32_t rank, std::uint32_t size);

/// Returns the states of all ranks, by rank. Errors: those of format::CheckpointReader.
[[nodiscard]] Result<std::vector<std::vector<std::byte>>> read_rng(const OpenCheckpoint& stored,
                                                                   format::VerifyLevel level);

}  // namespace rollcall::checkpoint
