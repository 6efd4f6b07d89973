#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/config/train_config.h"
#include "trainer/model/resnet.h"
#include "trainer/torch.h"
#include "trainer/train/elastic/neighbour_copies.h"
#include "trainer/train/resume/resume_point.h"
#include "trainer/train/step/training.h"
#include "trainer/train/world.h"

// How a training lives on in memory when ranks are lost or come (--elastic): the ranks that are left keep what a
// checkpoint of this moment would hold, meet again in another world, and all go on with the state of the rank that has
// finished the most steps. Newcomers get it from there.
namespace rollcall::train {

/// What one rank keeps.
struct Kept {
  model::ResNet model{nullptr};  ///< null: it was divided among ranks; then only copies and recovery count
  std::unique_ptr<torch::optim::Optimizer> optimizer = {};
  checkpoint::Progress progress;
  /// Copies of the model's buffers, in its order: from before the step that was under way; empty: none was. Its
  /// forward passes have changed BatchNorm's statistics, and will again.
  std::vector<at::Tensor> buffers_before = {};
  std::string config_json;
  std::int64_t line_begins_at = -1;               ///< see Checkpoints
  std::int64_t generation = 0;                    ///< the last that had all this
  std::vector<std::int64_t> gradient_order = {};  ///< see Replica
  Recovery recovery = {};
  std::optional<data::Datasets> datasets = {};   ///< nothing: they had not been opened
  std::unique_ptr<NeighbourCopies> copies = {};  ///< null: this training makes none
};

/// For other ranks: clocks of nodes need not agree, and what counts is how long ago it was.
[[nodiscard]] nlohmann::json to_json(const Recovery& recovery);
[[nodiscard]] Recovery recovery_of(const nlohmann::json& json);

/// What all ranks go on with.
struct Living {
  EarlierTraining earlier;
  std::uint32_t source = 0;             ///< the rank whose parameters and moments count: of those with the most steps
  std::uint32_t source_of_buffers = 0;  ///< the first rank that lived on: DDP's buffers are rank 0's
  std::string optimizer_state;          ///< what there is of it on the source, as JSON
  std::int64_t line_begins_at = -1;
  std::int64_t generation = 0;               ///< of the source's state
  std::vector<std::int64_t> gradient_order;  ///< the source's: one for all
  Recovery recovery;                         ///< the source's
};

/// What the ranks of a new world go on from in place of a file, the same on all of them; at most one of both.
struct FoundInMemory {
  std::optional<Living> living = {};       ///< a rank has the whole model
  std::optional<FoundCopies> copies = {};  ///< the ranks have all parts of a divided one together

  [[nodiscard]] bool any() const { return living || copies; }
  /// Of the rank that had it; without a cause where there is nothing.
  [[nodiscard]] Recovery recovery() const;
  /// Nothing where there is nothing. Errors (Internal): copies are of another step than their name says.
  [[nodiscard]] Result<std::optional<EarlierTraining>> earlier() const;
};

/// Looks for it. Nothing where this run has saved more since: ranks that were cut off may come back with less than
/// others have saved who have ended; `kept` is given up then, as its model is about to be loaded over. Collective.
/// Errors: Unavailable: a peer was lost; those of restarted_job_goes_on() and find_earlier_training().
[[nodiscard]] Result<FoundInMemory> find_in_memory(std::optional<Kept>& kept, const NeighbourCopies& copies,
                                                   const config::TrainConfig& config, const Environment& environment,
                                                   const World& world);

/// Fills model and optimizer of `training`, whose optimizer is new, on all ranks; of one that has kept something the
/// model is the same as before. `kept` is used up; where this fails, it stays on ranks that had finished as many steps
/// as the source: their replicas are equal. Others may have a part of what they had and a part of what the source has.
/// Collective. Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<void> spread(const Living& living, std::optional<Kept>& kept, Training& training,
                                  const World& world);

}  // namespace rollcall::train
