#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/background/commit.h"
#include "trainer/checkpoint/background/saver.h"
#include "trainer/checkpoint/format/rank_group.h"
#include "trainer/checkpoint/live_content.h"
#include "trainer/checkpoint/state_parts.h"
#include "trainer/config/train_config.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/train/elastic/peer_replicas.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// The importance of a save.
enum class Urgency {
  MaySkip,  ///< a regular save: skipped if the previous one is still in progress
  Due,      ///< the save of an epoch's end or of a best result
  Final,    ///< the last action of a run: durable, or an error, on return
};

/// The outcome of a save and its cost.
struct SaveReport {
  checkpoint::background::SaveOutcome outcome;
  /// Seconds that steps waited for it: from the end of the step before it (on a device, when that has computed it) to
  /// the begin of the next one, and again before that one's update.
  double stall_seconds = 0;
  /// Bytes of this rank's part if it went to a peer's memory; else unset.
  std::optional<std::uint64_t> copied_bytes = {};
};

/// Saves states in the background or synchronously, by settings checkpoint-mode, checkpoint-overlap, checkpoint-retries
/// and checkpoint-failures. Main thread only; all ranks call the same functions in the same order.
///
/// The ranks save through a process group of their own, because another thread uses it and its timeout is setting
/// checkpoint-timeout: a file system may respond later than a collective of the training may take. The group is created
/// on first use, so that ranks that continue with whole models in memory do not wait for it. A group that failed (Gloo
/// closes all its connections then) is created again before the next save.
///
/// Its members are that group, the outcomes of the saves so far, and the save in progress.
class CheckpointWriter {
 public:
  /// The arguments outlive this object.
  CheckpointWriter(const config::CheckpointConfig& config, const JobContext& context);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();

  /// Saves `parts`. The training may change its tensors after before_update() has returned; tensors that are neither in
  /// `parameter_keys` nor of the optimizer may change at once. Call it only after may_save() has returned true.
  /// `begun`: seconds_now() at which the training began to wait for it. Errors: with Urgency::Final the error of the
  /// last try; otherwise only that there is no memory for a copy.
  [[nodiscard]] Result<void> save(checkpoint::background::Destination destination, const checkpoint::StateParts& parts,
                                  const std::set<std::string>& parameter_keys, Urgency urgency, double begun);
  /// Does the same as save(), but into the memory of this rank and its peer (PeerReplicas::replicate()) instead of a
  /// file; always Urgency::MaySkip. Errors: a peer was lost.
  [[nodiscard]] Result<void> replicate_to_peer(const checkpoint::PartName& name, const checkpoint::StateParts& parts,
                                               const std::set<std::string>& parameter_keys, PeerReplicas& copies,
                                               double begun);
  /// Returns false if this save is to be skipped because another one is in progress; otherwise waits for that one and
  /// returns true. `others_saving`: whether a save of any rank was in progress at the last exchange of totals. A file
  /// is never skipped for a copy in memory.
  [[nodiscard]] bool may_save(Urgency urgency, bool others_saving);

  /// Waits for a save in progress.
  void finish_save();
  /// Returns the sums of `mine` over all ranks. Call it before each save, after may_save(). First waits for the other
  /// ranks for up to checkpoint-timeout, as a file system may delay one of them. If the group failed on any rank or
  /// could not be created, it is created again. Collective. Errors: PeerLost: a peer was lost; those of
  /// make_process_group().
  [[nodiscard]] Result<std::vector<std::int64_t>> sum_over_ranks(std::vector<std::int64_t> mine);
  /// Abandons the group, in which a rank may be lost, without waiting for it. Not while a save is in progress; nothing
  /// can be saved before sum_over_ranks().
  void abandon_group();
  /// Returns whether a save of this run has succeeded. Not while one is in progress.
  [[nodiscard]] bool saved_once() const { return saved_once_; }
  /// Sets the last step whose checkpoint in the folder belongs to the training that is resumed; -1: none does. The
  /// first save sets later ones aside.
  void set_last_own_step(std::int64_t step) { last_own_step_ = step; }
  /// Returns that step when the training is at `step`. Not while a save is in progress.
  [[nodiscard]] std::int64_t last_own_step_at(std::int64_t step) const { return saved_once() ? step : last_own_step_; }

  /// Allocates the page-locked memory that a save of such `parts` needs if they are on a device. c10::Error: there is
  /// none.
  void make_room(const checkpoint::StateParts& parts, const std::set<std::string>& parameter_keys);
  /// Waits until the optimizer may change the parameters. Call it before each step of the optimizer.
  void before_update();
  [[nodiscard]] bool under_way() const { return saver_ && saver_->busy(); }
  /// Returns whether so many saves in a row failed that the training must stop.
  [[nodiscard]] bool gave_up() const;
  /// Waits, and returns the error of the last save that failed. Only if a rank gave_up(): then it failed on all ranks.
  [[nodiscard]] Error last_failure();
  /// Returns the saves that ended since the last call.
  [[nodiscard]] std::vector<SaveReport> take_reports();

  /// Returns the group for loading, before the first save. Owned by this object. Collective. Errors: those of
  /// make_process_group().
  [[nodiscard]] Result<checkpoint::format::RankGroup*> group();

 private:
  class SaveGroup;
  [[nodiscard]] Result<void> make_group();
  void note(checkpoint::background::SaveOutcome outcome);
  /// Adds advice to the error of a rank whose save took so long that the other ranks gave it up.
  [[nodiscard]] Error with_advice(Error error, double seconds) const;
  [[nodiscard]] Result<void> commit(const checkpoint::background::Destination& destination,
                                    const checkpoint::format::Content& content) const;
  [[nodiscard]] Result<void> write_now(const checkpoint::background::Destination& destination,
                                       const checkpoint::StateParts& parts, double begun);

  const config::CheckpointConfig& config_;
  const JobContext& context_;
  int groups_made_ = 0;
  std::unique_ptr<SaveGroup> group_;  ///< null: not created
  bool saved_once_ = false;
  std::int64_t last_own_step_ = -1;
  std::shared_ptr<bool> staging_cleared_ = std::make_shared<bool>(false);
  SaveReport begun_;  ///< report of the last save that was started, without its outcome
  std::int64_t failed_in_a_row_ = 0;
  std::optional<Error> last_failure_;
  std::vector<SaveReport> reports_;
  checkpoint::DeviceCopies device_copies_;
  /// Null: all saves are synchronous; destroyed first.
  std::unique_ptr<checkpoint::background::BackgroundSaver> saver_;
};

}  // namespace rollcall::train
