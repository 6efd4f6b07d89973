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
#include "trainer/train/elastic/neighbour_copies.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// How much a save matters.
enum class Urgency {
  MaySkip,  ///< one of many: may be left out while the one before it is still under way
  Due,      ///< of an epoch's end or a best result
  Final,    ///< the last thing that a run does: it is durable, or an error, on return
};

/// How a save went, and what it cost.
struct SaveReport {
  checkpoint::background::SaveOutcome outcome;
  double stall_seconds = 0;                        ///< that the training waited for it
  std::optional<std::uint64_t> copied_bytes = {};  ///< it went to a neighbour's memory: this rank's part
};

/// Writes states in the background or at once, by settings checkpoint-mode, checkpoint-overlap, checkpoint-retries and
/// checkpoint-failures. Main thread only; all ranks call the same functions in the same order.
///
/// The ranks that save together have a process group of their own, for a thread of its own, with the patience of
/// setting checkpoint-timeout: a file system that stands still for longer than a collective of the training may take
/// ends neither. The group is made when it is first needed: ranks that go on with whole models in memory do not wait
/// for it then. One that failed (Gloo closes all its connections then) is made anew before the next save.
///
/// Its members are that group, what is known of the saves so far, and the save under way.
class CheckpointWriter {
 public:
  /// The arguments outlive this object.
  CheckpointWriter(const config::CheckpointConfig& config, const World& world);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();

  /// Saves `parts`, whose tensors the training may change once before_update() has returned (except those of no key in
  /// `parameter_keys` and no optimizer: at once). Called again only where `may_save` said so. Errors: with
  /// Urgency::Final what the last try failed with; otherwise only that there is no memory for a copy.
  [[nodiscard]] Result<void> save(checkpoint::background::Destination destination, const checkpoint::StateParts& parts,
                                  const std::set<std::string>& parameter_keys, Urgency urgency);
  /// As save(), to the memory of this rank and its neighbour (NeighbourCopies::exchange()) in place of a file; always
  /// Urgency::MaySkip. `begun`: seconds_now() when the training began to wait for it. Errors: a peer was lost.
  [[nodiscard]] Result<void> copy_to_neighbour(const checkpoint::PartName& name, const checkpoint::StateParts& parts,
                                               const std::set<std::string>& parameter_keys, NeighbourCopies& copies,
                                               double begun);
  /// Waits for a save that is under way, except where this one is to be skipped instead: false. `others_saving`:
  /// whether any rank's was under way when the ranks last talked. No file is left out for a copy in memory.
  [[nodiscard]] bool may_save(Urgency urgency, bool others_saving);

  /// Waits for a save that is under way.
  void finish_save();
  /// Before each save, after may_save(): the sums over ranks of numbers that each of them tells. Waits for the others
  /// before, with the patience of checkpoint-timeout, where a file system holds one of them up. A group that has failed
  /// on any rank, or could not be made, is made anew then. Collective. Errors: PeerLost: a peer was lost; those of
  /// make_process_group().
  [[nodiscard]] Result<std::vector<std::int64_t>> tell_ranks(std::vector<std::int64_t> mine);
  /// Lets go of a group of which a rank may be lost, without waiting for it. Not while a save is under way; nothing can
  /// be saved before tell_ranks().
  void leave_group_behind();
  /// Whether a save of this run has succeeded. Not while one is under way.
  [[nodiscard]] bool saved_once() const { return saved_once_; }
  /// The folder's checkpoints up to this step are of the training that is gone on with; -1: none are. The first save
  /// sets others aside.
  void begin_line(std::int64_t step) { line_begins_at_ = step; }
  /// Up to which step they are, at `step`. Not while a save is under way.
  [[nodiscard]] std::int64_t line_at(std::int64_t step) const { return saved_once() ? step : line_begins_at_; }

  /// Takes what a save of such `parts` needs of page-locked memory, where they are on a device. c10::Error: there is
  /// none.
  void make_room(const checkpoint::StateParts& parts);
  /// To be called before the optimizer's step.
  void before_update();
  [[nodiscard]] bool under_way() const { return saver_ && saver_->busy(); }
  /// Whether so many saves in a row have failed that the training is to stop.
  [[nodiscard]] bool gave_up() const;
  /// Waits; the error of the last save that failed. Only where any rank gave_up(): then it failed on all.
  [[nodiscard]] Error last_failure();
  /// Saves that ended since the last call.
  [[nodiscard]] std::vector<SaveReport> take_reports();

  /// For loading, before the first save. Owned by this object. Collective. Errors: those of make_process_group().
  [[nodiscard]] Result<checkpoint::format::RankGroup*> group();

 private:
  class SaveGroup;
  [[nodiscard]] Result<void> make_group();
  void note(checkpoint::background::SaveOutcome outcome);
  /// The others gave a rank up that a save held for too long, which hears of lost peers then.
  [[nodiscard]] Error with_advice(Error error, double seconds) const;
  [[nodiscard]] Result<void> commit(const checkpoint::background::Destination& destination,
                                    const checkpoint::format::Content& content) const;
  [[nodiscard]] Result<void> write_now(const checkpoint::background::Destination& destination,
                                       const checkpoint::StateParts& parts);

  const config::CheckpointConfig& config_;
  const World& world_;
  int groups_made_ = 0;
  std::unique_ptr<SaveGroup> group_;  ///< null: not made
  bool saved_once_ = false;
  std::int64_t line_begins_at_ = -1;
  std::shared_ptr<bool> stage_cleared_ = std::make_shared<bool>(false);
  SaveReport begun_;  ///< the last save that was begun: all but its outcome
  std::int64_t failed_in_a_row_ = 0;
  std::optional<Error> last_failure_;
  std::vector<SaveReport> reports_;
  checkpoint::DeviceCopies device_copies_;
  std::unique_ptr<checkpoint::background::BackgroundSaver> saver_;  ///< null: everything at once; ends first
};

}  // namespace rollcall::train
