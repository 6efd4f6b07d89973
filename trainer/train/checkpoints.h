#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/distributed/ddp/replica.h"
#include "trainer/train/run_folders.h"
#include "trainer/train/saving.h"
#include "trainer/train/task.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Saves and loads the state of a task. Every rank calls every function; load(), save() and confirm_same_step()
/// communicate, and the first two have the same outcome on every rank.
class Checkpoints {
 public:
  /// All references outlive this object.
  Checkpoints(const settings::Settings& settings, RunFolders folders, Task& task, const parallel::Replica& replica,
              World& world, process_group::Group saving_group, std::vector<std::string> argv);

  /// Fills the task's model and optimizer and `progress` from the checkpoint that setting `resume` means, or else the
  /// model from the one that `init-from` means. Returns a line for people, or an empty text where there is nothing.
  /// `warnings` gets what else they should know.
  [[nodiscard]] Result<std::string> load(checkpoint::Progress& progress, std::vector<std::string>& warnings);
  /// A node on which the newest file cannot be read soundly falls back to another one than the rest: an error
  /// (Mismatch).
  [[nodiscard]] Result<void> confirm_same_step(const checkpoint::Progress& progress) const;
  /// Saves, or begins to (see Saving); false where it is left out. `others_saving`: whether any rank's save was under
  /// way when the ranks last talked.
  [[nodiscard]] Result<bool> save(const checkpoint::Progress& progress, Urgency urgency, bool others_saving);
  void before_update() { saving_.before_update(); }
  [[nodiscard]] bool under_way() const { return saving_.under_way(); }
  [[nodiscard]] bool gave_up() const { return saving_.gave_up(); }
  [[nodiscard]] Error last_failure() { return saving_.last_failure(); }
  [[nodiscard]] std::vector<SaveReport> take_reports() { return saving_.take_reports(); }
  /// Of how many validations the checkpoints are kept.
  [[nodiscard]] std::size_t best_kept() const;

  [[nodiscard]] bool due_after_step(std::int64_t global_step) const;
  [[nodiscard]] bool due_after_epoch(std::int64_t finished_epochs) const;

 private:
  /// The replica's way of dividing parameters, in the checkpoint's terms.
  class ReplicaSharding final : public checkpoint::Sharding {
   public:
    ReplicaSharding(const parallel::Replica& replica, const torch::nn::Module& model);
    [[nodiscard]] std::optional<checkpoint::Shard> shard(const std::string& key) const override;
    [[nodiscard]] bool writes() const override { return replica_.is_first_of_replicas(); }

   private:
    const parallel::Replica& replica_;
    std::map<std::string, std::vector<std::int64_t>> whole_shapes_;
  };

  [[nodiscard]] checkpoint::format::VerifyLevel verify_level() const;
  /// Fills the model as setting `init-from` says; a line for people.
  [[nodiscard]] Result<std::string> init();
  [[nodiscard]] checkpoint::Retention retention(const checkpoint::Progress& progress) const;
  [[nodiscard]] checkpoint::TrainingState state_of(const checkpoint::Progress& progress) const;
  [[nodiscard]] Result<void> continue_at(checkpoint::Progress& progress, const checkpoint::TrainingState& state,
                                         std::vector<std::string>& warnings) const;

  const settings::Settings& settings_;
  RunFolders folders_;
  Task& task_;
  const parallel::Replica& replica_;
  ReplicaSharding sharding_;
  World& world_;
  Saving saving_;
  std::vector<std::string> argv_;
  std::string config_json_;
  std::vector<std::string> parameter_keys_;  ///< in the optimizer's order
  std::set<std::string> parameters_;
};

/// Where a fresh run begins.
[[nodiscard]] checkpoint::Progress first_progress(const settings::Settings& settings, const World& world);

}  // namespace rollcall::train
