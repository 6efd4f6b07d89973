#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/parallel/replica.h"
#include "trainer/train/checkpoint_group.h"
#include "trainer/train/task.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Saves and loads the state of a task. Every rank calls every function; load(), save() and confirm_same_step()
/// communicate, and the first two have the same outcome on every rank.
class Checkpoints {
 public:
  /// All references outlive this object.
  Checkpoints(const settings::Settings& settings, std::string folder, Task& task, const parallel::Replica& replica,
              World& world, std::vector<std::string> argv);

  /// Creates the folder and proves that it can be written (rank 0). Errors (CannotCreate).
  [[nodiscard]] Result<void> prepare() const;
  /// Fills the task's model and optimizer and `progress` from the checkpoint that setting `resume` means. Returns a
  /// line for people, or an empty text where there is nothing to resume from. `warnings` gets what else they should
  /// know.
  [[nodiscard]] Result<std::string> load(checkpoint::Progress& progress, std::vector<std::string>& warnings);
  /// A node on which the newest file cannot be read soundly falls back to another one than the rest: an error
  /// (Mismatch).
  [[nodiscard]] Result<void> confirm_same_step(const checkpoint::Progress& progress) const;
  [[nodiscard]] Result<void> save(const checkpoint::Progress& progress);

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

  [[nodiscard]] checkpoint::TrainingState state_of(const checkpoint::Progress& progress) const;
  [[nodiscard]] Result<void> continue_at(checkpoint::Progress& progress, const checkpoint::TrainingState& state,
                                         std::vector<std::string>& warnings) const;

  const settings::Settings& settings_;
  std::string folder_;
  Task& task_;
  const parallel::Replica& replica_;
  ReplicaSharding sharding_;
  World& world_;
  CheckpointGroup group_;
  std::vector<std::string> argv_;
};

/// Where a fresh run begins.
[[nodiscard]] checkpoint::Progress first_progress(const settings::Settings& settings, const World& world);

}  // namespace rollcall::train
