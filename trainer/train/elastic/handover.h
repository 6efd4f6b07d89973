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
#include "trainer/model/image_classifier.h"
#include "trainer/torch.h"
#include "trainer/train/elastic/peer_replicas.h"
#include "trainer/train/job_context.h"
#include "trainer/train/resume/resume_point.h"
#include "trainer/train/step/training.h"

// The handover of a training's in-memory state to its next world when ranks are lost or join (--elastic): the remaining
// ranks keep what a checkpoint of this moment would hold, connect again, and all continue with the state of the rank
// that has finished the most steps. New ranks receive it from that rank.
namespace rollcall::train {

/// The in-memory state that one rank keeps.
struct InMemoryState {
  model::Model model;  ///< null: it was sharded, so that only `copies` and `recovery` count
  std::unique_ptr<torch::optim::Optimizer> optimizer = {};
  std::optional<optim::WeightAverage> average = {};
  checkpoint::Progress progress;
  /// Copies of statistics_of() from before the step in progress; empty: none was. The forward passes of that step have
  /// changed BatchNorm's statistics and will do so again.
  std::vector<at::Tensor> buffers_before = {};
  std::string config_json;
  std::int64_t last_own_step = -1;                ///< see CheckpointWriter::set_last_own_step()
  std::int64_t generation = 0;                    ///< last generation that had this state
  std::vector<std::int64_t> gradient_order = {};  ///< see Replica
  Recovery recovery = {};
  std::optional<data::Datasets> datasets = {};  ///< unset: they were not open
  std::unique_ptr<PeerReplicas> copies = {};    ///< null: this training has no peer replicas
};

/// Converts a recovery for other ranks: as ages instead of times, because clocks of nodes may differ.
[[nodiscard]] nlohmann::json to_json(const Recovery& recovery);
[[nodiscard]] Recovery recovery_of(const nlohmann::json& json);

/// The state with which all ranks continue.
struct Handover {
  EarlierTraining earlier;
  std::uint32_t source = 0;             ///< rank whose parameters and moments count, one of those with the most steps
  std::uint32_t source_of_buffers = 0;  ///< first rank that kept state: DDP's buffers are rank 0's
  std::string optimizer_state;          ///< names and numbers of the source's optimizer state, as JSON
  std::int64_t last_own_step = -1;
  std::int64_t generation = 0;               ///< generation of the source's state
  std::vector<std::int64_t> gradient_order;  ///< the source's, for all ranks
  Recovery recovery;                         ///< the source's
};

/// The state from which the ranks of a new world resume instead of a file, the same on all ranks; at most one of both
/// is set.
struct FoundInMemory {
  std::optional<Handover> handover = {};     ///< a rank has the whole model
  std::optional<FoundReplicas> copies = {};  ///< the ranks together hold all parts of a sharded model

  [[nodiscard]] bool any() const { return handover || copies; }
  /// Returns the recovery of the rank that had the state; without a cause if nothing was found.
  [[nodiscard]] Recovery recovery() const;
  /// Returns the training found; nothing if there is none. Errors (Internal): replicas hold another step than their
  /// name says.
  [[nodiscard]] Result<std::optional<EarlierTraining>> earlier() const;
};

/// Looks for in-memory state. Returns none if this run has saved a later step since: ranks that were cut off may return
/// with less than what ranks that have ended saved. `kept` is dropped then, because its model is about to be
/// overwritten. Collective. Errors: Unavailable: a peer was lost; those of restarted_job_continues() and
/// find_earlier_training().
[[nodiscard]] Result<FoundInMemory> find_in_memory(std::optional<InMemoryState>& kept, const PeerReplicas& copies,
                                                   const config::TrainConfig& config, const Environment& environment,
                                                   const JobContext& context);

/// Fills model and optimizer of `training`, whose optimizer is new, on all ranks; the model object of a rank that kept
/// state stays the same. Consumes `kept`. On failure it stays on ranks that had finished as many steps as the source,
/// as their replicas are equal; other ranks may have a mixture of both states. Collective. Errors (Unavailable): a peer
/// was lost.
[[nodiscard]] Result<void> broadcast_state(const Handover& handover, std::optional<InMemoryState>& kept,
                                           Training& training, const JobContext& context);

}  // namespace rollcall::train
