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
#include "trainer/train/elastic/handover.h"
#include "trainer/train/job_context.h"
#include "trainer/train/resume/resume_point.h"
#include "trainer/train/run_folder/lease.h"
#include "trainer/train/step/training.h"

namespace rollcall::train {

/// Decides which state of a training is saved and loaded, and when. Every rank calls every function; load(),
/// resume_from_memory(), save(), replicate() and confirm_same_step() are collective, and all of them except the last
/// have the same outcome on every rank.
class Checkpoints {
 public:
  /// All references outlive this object, and so does `lease`, which is null except on rank 0.
  Checkpoints(const config::TrainConfig& config, Training& training, const JobContext& context, const Lease* lease,
              std::vector<std::string> argv, std::string job);

  /// Fills the training's model and optimizer and `progress` from the checkpoint that setting `resume` selects, or else
  /// the model from the file of `init-from`. Returns a line for people that says where the training starts, and why.
  /// `warnings` gets further messages. The optimizer keeps the options of this run.
  [[nodiscard]] Result<std::string> load(checkpoint::Progress& progress, std::vector<std::string>& warnings);
  /// Does the same as load(), but from the memory of the ranks: a whole model and its optimizer have been filled by
  /// broadcast_state(); the parts of a sharded one are loaded from peer replicas, after use_replicas().
  [[nodiscard]] Result<std::string> resume_from_memory(FoundInMemory& found, checkpoint::Progress& progress,
                                                       std::vector<std::string>& warnings);
  [[nodiscard]] bool resumed_from_memory() const { return resumed_from_memory_; }
  /// Returns the file that load() used; empty if it used none.
  [[nodiscard]] const std::string& loaded_from() const { return loaded_from_; }
  /// Returns whether there is a file from which a later run can resume. Waits until a save in progress has ended, so no
  /// rank may be lost.
  [[nodiscard]] bool has_checkpoint() {
    writer_.finish_save();
    return writer_.last_own_step_at(0) >= 0 || (!loaded_from_.empty() && !resumed_from_memory_);
  }
  /// Returns whether the loaded checkpoint is of an epoch's last step, so that only the epoch's end remains.
  [[nodiscard]] bool ends_an_epoch() const { return ends_an_epoch_; }
  /// Checks that all ranks loaded the same step. A node that cannot read the newest file soundly falls back to an older
  /// one: Mismatch.
  [[nodiscard]] Result<void> confirm_same_step(const checkpoint::Progress& progress) const;

  [[nodiscard]] bool due_after_step(std::int64_t global_step) const;
  [[nodiscard]] bool due_after_epoch(std::int64_t finished_epochs) const;
  /// Saves, or starts a save (see CheckpointWriter); returns false if it is skipped. The first save of a run that did
  /// not resume from the folder's newest checkpoint sets aside what other trainings left there. `others_saving`:
  /// whether a save of any rank was in progress at the last exchange of totals.
  [[nodiscard]] Result<bool> save(checkpoint::Progress& progress, Urgency urgency, bool others_saving);
  /// Allocates the memory into which saves copy from a device, so that no save waits for it. Call it after a step after
  /// which nothing is saved, when the optimizer has its state. Later calls do nothing. c10::Error: there is no memory.
  void make_room(const checkpoint::Progress& progress);
  /// Returns the writer, which has the saves in progress and their outcomes.
  [[nodiscard]] CheckpointWriter& writer() { return writer_; }
  [[nodiscard]] BestCheckpoints& best() { return best_; }

  /// Sets the peer replicas of this process, which outlive this object, and the `generation` of the world.
  void use_replicas(PeerReplicas& copies, std::int64_t generation) { replicas_ = {&copies, generation}; }
  /// Returns whether a peer replica is due: setting replicate-steps after the previous one, and at once in each new
  /// world.
  [[nodiscard]] bool replica_due_after_step(std::int64_t global_step) const;
  /// Returns whether a replica has been due for so long that it precedes a save by steps, which would otherwise be due
  /// after every step.
  [[nodiscard]] bool replica_overdue_after_step(std::int64_t global_step) const;
  /// Starts to copy the state to a peer's memory; returns false if a save is in progress on any rank and `may_skip` is
  /// set.
  [[nodiscard]] Result<bool> replicate(const checkpoint::Progress& progress, bool others_saving, bool may_skip);

  /// Returns whether another run has taken the folder, as far as this rank knows.
  [[nodiscard]] bool lost_folder() const { return lease_ != nullptr && lease_->lost(); }
  /// Returns the error of a run that has lost a folder, on any rank.
  [[nodiscard]] Error taken_over() const;

 private:
  /// The state of the peer replicas.
  struct Replicas {
    PeerReplicas* copies = nullptr;
    std::int64_t generation = 0;
    std::int64_t last = -1;     ///< step of the last replica that was started; -1: none
    std::int64_t number = 0;    ///< how many were started
    std::int64_t began_at = 0;  ///< step at which this object's training started
  };

  [[nodiscard]] checkpoint::TrainingState state_of(const checkpoint::Progress& progress) const;
  [[nodiscard]] Result<Continued> continue_from(checkpoint::Progress& progress, const checkpoint::TrainingState& state,
                                                std::vector<std::string>& warnings);
  [[nodiscard]] Result<std::string> init();
  void begin_average();
  [[nodiscard]] Result<checkpoint::StateParts> parts_to_save(const checkpoint::Progress& progress, bool looks);
  [[nodiscard]] Result<void> check_memory(const checkpoint::StateParts& parts) const;

  const config::TrainConfig& config_;
  Training& training_;
  const JobContext& context_;
  std::unique_ptr<checkpoint::Sharding> sharding_;  ///< null: every rank has the whole model
  CheckpointWriter writer_;
  BestCheckpoints best_;
  const Lease* lease_;
  std::vector<std::string> argv_;
  std::string job_;
  std::vector<std::string> parameter_keys_;  ///< in the optimizer's order
  std::string loaded_from_;
  bool ends_an_epoch_ = false;
  bool resumed_from_memory_ = false;
  bool has_room_ = false;
  Replicas replicas_;
};

}  // namespace rollcall::train
