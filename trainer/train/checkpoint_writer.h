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
#include "trainer/distributed/process_group/collectives.h"
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
  double stall_seconds = 0;  ///< that the training waited for it
};

/// Writes states in the background or at once, by settings checkpoint-mode, checkpoint-overlap, checkpoint-retries and
/// checkpoint-failures. Main thread only; all ranks call the same functions in the same order.
class CheckpointWriter {
 public:
  /// `group` is used by no one else. `config` outlives this object.
  CheckpointWriter(const config::CheckpointConfig& config, process_group::Group group);

  /// Saves `parts`, whose tensors the training may change once before_update() has returned (except those of no key in
  /// `parameter_keys` and no optimizer: at once). Called again only where `may_save` said so. Errors: with
  /// Urgency::Final what the last try failed with; otherwise only that there is no memory for a copy.
  [[nodiscard]] Result<void> save(checkpoint::background::Destination destination, const checkpoint::StateParts& parts,
                                  const std::set<std::string>& parameter_keys, Urgency urgency);
  /// Waits for a save that is under way, except where this one is to be skipped instead: false. `others_saving`:
  /// whether any rank's was under way when the ranks last talked.
  [[nodiscard]] bool may_save(Urgency urgency, bool others_saving);

  /// To be called before the optimizer's step.
  void before_update();
  [[nodiscard]] bool under_way() const { return saver_ && saver_->busy(); }
  /// Whether so many saves in a row have failed that the training is to stop.
  [[nodiscard]] bool gave_up() const;
  /// Waits; the error of the last save that failed. Only where any rank gave_up(): then it failed on all.
  [[nodiscard]] Error last_failure();
  /// Saves that ended since the last call.
  [[nodiscard]] std::vector<SaveReport> take_reports();

  /// For loading, before the first save.
  [[nodiscard]] checkpoint::format::RankGroup& group() { return *group_; }

 private:
  void settle();
  void note(checkpoint::background::SaveOutcome outcome);
  [[nodiscard]] Result<void> write_now(const checkpoint::background::Destination& destination,
                                       const checkpoint::StateParts& parts);

  const config::CheckpointConfig& config_;
  std::unique_ptr<checkpoint::format::RankGroup> group_;
  checkpoint::background::RetryPolicy policy_;
  double stall_seconds_ = 0;  ///< of the save under way
  std::int64_t failed_in_a_row_ = 0;
  std::optional<Error> last_failure_;
  std::vector<SaveReport> reports_;
  checkpoint::DeviceCopies device_copies_;
  std::unique_ptr<checkpoint::background::BackgroundSaver> saver_;  ///< null: everything at once; ends first
};

/// A process group of all ranks that nothing else uses, so that a thread of its own can write checkpoints with it.
/// Null in a world of one. Collective. Errors: those of make_process_group().
[[nodiscard]] Result<process_group::Group> make_saving_group(const World& world);

}  // namespace rollcall::train
