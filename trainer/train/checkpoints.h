#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/train_config.h"
#include "trainer/train/checkpoint_writer.h"
#include "trainer/train/lease.h"
#include "trainer/train/survival.h"
#include "trainer/train/training.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Where a fresh run begins. `images_asked`: of a step, that the training asks for from its start; 0: now's, which
/// ranks that do not divide that number may have made of it.
[[nodiscard]] checkpoint::Progress first_progress(const config::TrainConfig& config, const Training& training,
                                                  const World& world, std::int64_t images_asked = 0);

/// Saves and loads the state of a training. Every rank calls every function; load(), save() and confirm_same_step()
/// communicate, and the first two have the same outcome on every rank.
class Checkpoints {
 public:
  /// All references outlive this object, and so does `lease`, which is null but on rank 0.
  Checkpoints(const config::TrainConfig& config, Training& training, const World& world, const Lease* lease,
              std::vector<std::string> argv, std::string job);

  /// Fills the training's model and optimizer and `progress` from the checkpoint that setting `resume` means, or else
  /// the model from the one that `init-from` means. Returns a line for people: where the training begins, and why.
  /// `warnings` gets what else they should know. The optimizer's options stay this run's.
  [[nodiscard]] Result<std::string> load(checkpoint::Progress& progress, std::vector<std::string>& warnings);
  /// Goes on with what the ranks have kept in memory: model and optimizer are filled already (spread()). Returns and
  /// warns as load() does.
  [[nodiscard]] Result<std::string> go_on(const Living& living, checkpoint::Progress& progress,
                                          std::vector<std::string>& warnings);
  /// As load(), from copies in the ranks' memory, after use_copies(). Collective.
  [[nodiscard]] Result<std::string> load_copies(FoundCopies& found, checkpoint::Progress& progress,
                                                std::vector<std::string>& warnings);
  /// For another object that goes on with `progress`: a validation among the best whose checkpoint may not be there is
  /// repeated, and what it drove out counts again.
  void give_back_best(checkpoint::Progress& progress) const;
  [[nodiscard]] bool went_on_from_memory() const { return went_on_; }
  /// For another object that goes on at `step`: up to which step the folder's checkpoints are of this training. Not
  /// while a save is under way.
  [[nodiscard]] std::int64_t line_at(std::int64_t step) const { return writer_.saved_once() ? step : line_begins_at_; }
  /// The file that load() used; empty where it used none.
  [[nodiscard]] const std::string& loaded_from() const { return loaded_from_; }
  /// A node on which the newest file cannot be read soundly falls back to another one than the rest: an error
  /// (Mismatch).
  [[nodiscard]] Result<void> confirm_same_step(const checkpoint::Progress& progress) const;
  /// With its first save, a run that did not go on from the folder's newest checkpoint sets aside what others left
  /// there. Saves, or begins to (see CheckpointWriter); false where it is left out. `others_saving`: whether any rank's
  /// save was under way when the ranks last talked.
  [[nodiscard]] Result<bool> save(checkpoint::Progress& progress, Urgency urgency, bool others_saving);
  /// Those of this process, which outlive this object; `generation`: of the world.
  void use_copies(NeighbourCopies& copies, std::int64_t generation);
  /// Begins to copy the state to a neighbour's memory, after use_copies(); false where a save is under way on any rank
  /// and this one `may_skip`.
  [[nodiscard]] Result<bool> replicate(const checkpoint::Progress& progress, bool others_saving, bool may_skip);
  /// Enters the validation of the present step among the best of `progress`: whether it is one, and to be saved. What
  /// it drives out keeps its checkpoint until the new one's is there, and takes its place again where that cannot be
  /// written. Errors: Unavailable: a peer was lost.
  [[nodiscard]] Result<bool> note_validation(checkpoint::Progress& progress, double metric);
  /// To be called after a step behind which nothing is saved, once the optimizer has its state: no save waits for the
  /// memory that it copies to from a device, then. Does something once. c10::Error: there is none.
  void make_room(const checkpoint::Progress& progress);
  /// Of the saves that are under way and of those that ended.
  [[nodiscard]] CheckpointWriter& writer() { return writer_; }

  /// Whether another run has taken the folder, so far as this rank knows.
  [[nodiscard]] bool lost_folder() const { return lease_ != nullptr && lease_->lost(); }
  /// What a run ends with that has lost a folder, on any rank.
  [[nodiscard]] Error taken_over() const;

  /// Whether the checkpoint that was loaded is of an epoch's last step, and only the epoch's end is left of it.
  [[nodiscard]] bool ends_an_epoch() const { return ends_an_epoch_; }
  [[nodiscard]] bool due_after_step(std::int64_t global_step) const;
  /// Whether a copy for a neighbour is: so many steps after the one before, and at once in each new world.
  [[nodiscard]] bool replica_due_after_step(std::int64_t global_step) const;
  /// Whether it has been for so long that a save by steps gives way to it: where one is due after every step.
  [[nodiscard]] bool replica_overdue_after_step(std::int64_t global_step) const;
  [[nodiscard]] bool due_after_epoch(std::int64_t finished_epochs) const;

 private:
  /// Continues at the place of `state`, which was loaded; a part of a line for people.
  [[nodiscard]] Result<std::string> take_place(checkpoint::Progress& progress, const checkpoint::TrainingState& state,
                                               std::vector<std::string>& warnings);
  /// Fills the model as setting `init-from` says; a part of a line for people.
  [[nodiscard]] Result<std::string> init();
  /// After the save of the last validation that was noted has ended: the best are those that have a checkpoint.
  [[nodiscard]] Result<void> settle_best(checkpoint::Progress& progress);
  /// Those of `validations` whose checkpoints lie in the folder and are this training's, as rank 0 sees it. Collective;
  /// not while a save is under way. Errors: Unavailable: a peer was lost.
  [[nodiscard]] Result<std::vector<checkpoint::Best>> with_checkpoints(
      const std::vector<checkpoint::Best>& validations);
  [[nodiscard]] checkpoint::Retention retention(const checkpoint::Progress& progress) const;
  /// Whether all ranks have the memory that copies of `parts` take. Collective. Errors: Usage: one has not;
  /// Unavailable: a peer was lost.
  [[nodiscard]] Result<void> check_memory(const checkpoint::StateParts& parts) const;
  [[nodiscard]] checkpoint::TrainingState state_of(const checkpoint::Progress& progress) const;
  [[nodiscard]] bool is_finished(const checkpoint::Progress& progress) const;
  /// Errors, the same on all ranks: BadData: a number of `parts` is not finite, on any rank; CannotCreate: another run
  /// has taken the folder; Unavailable: the ranks could not be connected again for saving.
  /// `looks`: whether at the lease's file, which a file system may hold up.
  [[nodiscard]] Result<void> prepare_save(const checkpoint::StateParts& parts, std::int64_t step, bool looks);
  [[nodiscard]] Result<void> keep_position(checkpoint::Progress& progress, std::int64_t dataset_size);
  [[nodiscard]] Result<void> continue_at(checkpoint::Progress& progress, const checkpoint::TrainingState& state,
                                         std::vector<std::string>& warnings);
  /// The best validations of the training that is gone on with, so far as they count here; a part of a line for people
  /// on those that do not, or an empty text. `other_images`: they were of other images than this run's.
  [[nodiscard]] Result<std::string> keep_best(checkpoint::Progress& progress, bool other_images);

  const config::TrainConfig& config_;
  Training& training_;
  const World& world_;
  std::unique_ptr<checkpoint::Sharding> sharding_;  ///< null: every rank has the whole model
  CheckpointWriter writer_;
  const Lease* lease_;
  std::vector<std::string> argv_;
  std::string job_;
  std::vector<std::string> parameter_keys_;  ///< in the optimizer's order
  std::set<std::string> parameters_;
  bool ends_an_epoch_ = false;
  bool went_on_ = false;
  bool has_room_ = false;
  NeighbourCopies* copies_ = nullptr;
  std::int64_t generation_ = 0;   ///< of the world
  std::int64_t replicated_ = -1;  ///< the step of which replicate() has begun the last copy; -1: it has not
  std::int64_t replicas_ = 0;     ///< that it has begun
  std::int64_t began_at_ = 0;     ///< the step behind which this object's training began
  std::string loaded_from_;
  std::int64_t unsettled_ = -1;  ///< the step of the last validation among the best, until its save is known to be done
  std::vector<checkpoint::Best> driven_out_;  ///< those of before that validation
  std::int64_t line_begins_at_ = -1;          ///< checkpoints of the folder with higher steps are of other trainings
  std::shared_ptr<bool> stage_cleared_ = std::make_shared<bool>(false);
};

}  // namespace rollcall::train
