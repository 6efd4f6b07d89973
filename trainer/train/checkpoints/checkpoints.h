#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/train_config.h"
#include "trainer/train/checkpoints/best_checkpoints.h"
#include "trainer/train/checkpoints/checkpoint_writer.h"
#include "trainer/train/elastic/survival.h"
#include "trainer/train/resume/resume_point.h"
#include "trainer/train/run_folder/lease.h"
#include "trainer/train/step/training.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Saves and loads the state of a training: which of it, when, and whether it may. Every rank calls every function;
/// load(), go_on(), save(), replicate() and confirm_same_step() communicate, and all but the last have the same outcome
/// on every rank.
class Checkpoints {
 public:
  /// All references outlive this object, and so does `lease`, which is null but on rank 0.
  Checkpoints(const config::TrainConfig& config, Training& training, const World& world, const Lease* lease,
              std::vector<std::string> argv, std::string job);

  /// Fills the training's model and optimizer and `progress` from the checkpoint that setting `resume` means, or else
  /// the model from the one that `init-from` means. Returns a line for people: where the training begins, and why.
  /// `warnings` gets what else they should know. The optimizer's options stay this run's.
  [[nodiscard]] Result<std::string> load(checkpoint::Progress& progress, std::vector<std::string>& warnings);
  /// As load(), from what the ranks have in memory: a whole model and its optimizer are filled already (spread());
  /// copies of a divided one's parts are loaded, after use_copies().
  [[nodiscard]] Result<std::string> go_on(FoundInMemory& found, checkpoint::Progress& progress,
                                          std::vector<std::string>& warnings);
  [[nodiscard]] bool went_on_from_memory() const { return went_on_; }
  /// The file that load() used; empty where it used none.
  [[nodiscard]] const std::string& loaded_from() const { return loaded_from_; }
  /// Whether a file exists that a later run can resume from. Not while a save is under way.
  [[nodiscard]] bool has_checkpoint() const { return writer_.line_at(0) >= 0 || (!loaded_from_.empty() && !went_on_); }
  /// Whether the checkpoint that was loaded is of an epoch's last step, and only the epoch's end is left of it.
  [[nodiscard]] bool ends_an_epoch() const { return ends_an_epoch_; }
  /// A node on which the newest file cannot be read soundly falls back to another one than the rest: an error
  /// (Mismatch).
  [[nodiscard]] Result<void> confirm_same_step(const checkpoint::Progress& progress) const;

  [[nodiscard]] bool due_after_step(std::int64_t global_step) const;
  [[nodiscard]] bool due_after_epoch(std::int64_t finished_epochs) const;
  /// With its first save, a run that did not go on from the folder's newest checkpoint sets aside what others left
  /// there. Saves, or begins to (see CheckpointWriter); false where it is left out. `others_saving`: whether any rank's
  /// save was under way when the ranks last talked.
  [[nodiscard]] Result<bool> save(checkpoint::Progress& progress, Urgency urgency, bool others_saving);
  /// To be called after a step behind which nothing is saved, once the optimizer has its state: no save waits for the
  /// memory that it copies to from a device, then. Does something once. c10::Error: there is none.
  void make_room(const checkpoint::Progress& progress);
  /// Of the saves that are under way and of those that ended.
  [[nodiscard]] CheckpointWriter& writer() { return writer_; }
  [[nodiscard]] BestCheckpoints& best() { return best_; }

  /// Those of this process, which outlive this object; `generation`: of the world.
  void use_copies(NeighbourCopies& copies, std::int64_t generation) { replicas_ = {&copies, generation}; }
  /// Whether a copy for a neighbour is due: so many steps after the one before, and at once in each new world.
  [[nodiscard]] bool replica_due_after_step(std::int64_t global_step) const;
  /// Whether it has been for so long that a save by steps gives way to it: where one is due after every step.
  [[nodiscard]] bool replica_overdue_after_step(std::int64_t global_step) const;
  /// Begins to copy the state to a neighbour's memory; false where a save is under way on any rank and this one
  /// `may_skip`.
  [[nodiscard]] Result<bool> replicate(const checkpoint::Progress& progress, bool others_saving, bool may_skip);

  /// Whether another run has taken the folder, so far as this rank knows.
  [[nodiscard]] bool lost_folder() const { return lease_ != nullptr && lease_->lost(); }
  /// What a run ends with that has lost a folder, on any rank.
  [[nodiscard]] Error taken_over() const;

 private:
  /// Copies for a neighbour.
  struct Replicas {
    NeighbourCopies* copies = nullptr;
    std::int64_t generation = 0;
    std::int64_t last = -1;     ///< the step of the last one that was begun; -1: none was
    std::int64_t number = 0;    ///< that were begun
    std::int64_t began_at = 0;  ///< the step behind which this object's training began
  };

  [[nodiscard]] checkpoint::TrainingState state_of(const checkpoint::Progress& progress) const;
  [[nodiscard]] Result<Continued> take_place(checkpoint::Progress& progress, const checkpoint::TrainingState& state,
                                             std::vector<std::string>& warnings);
  [[nodiscard]] Result<std::string> init();
  [[nodiscard]] Result<checkpoint::StateParts> parts_to_save(const checkpoint::Progress& progress, bool looks);
  [[nodiscard]] Result<void> check_memory(const checkpoint::StateParts& parts) const;

  const config::TrainConfig& config_;
  Training& training_;
  const World& world_;
  std::unique_ptr<checkpoint::Sharding> sharding_;  ///< null: every rank has the whole model
  CheckpointWriter writer_;
  BestCheckpoints best_;
  const Lease* lease_;
  std::vector<std::string> argv_;
  std::string job_;
  std::vector<std::string> parameter_keys_;  ///< in the optimizer's order
  std::string loaded_from_;
  bool ends_an_epoch_ = false;
  bool went_on_ = false;
  bool has_room_ = false;
  Replicas replicas_;
};

}  // namespace rollcall::train
