#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/parallel/replica.h"
#include "trainer/train/task.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Saves and loads the state of a task. Every rank calls every function; save() and confirm_same_step() communicate,
/// and save() has the same outcome on every rank: a failure of rank 0, which writes, is everybody's failure.
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
    explicit ReplicaSharding(const parallel::Replica& replica) : replica_(replica) {}
    [[nodiscard]] at::Tensor shard(const std::string& key) const override { return replica_.shard(key); }
    [[nodiscard]] at::Tensor gather(const std::string& key, const at::Tensor& part) const override {
      return replica_.gather(key, part);
    }
    [[nodiscard]] at::Tensor part_of(const std::string& key, const at::Tensor& whole) const override {
      return replica_.part_of(key, whole);
    }

   private:
    const parallel::Replica& replica_;
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
  std::vector<std::string> argv_;
};

/// Where a fresh run begins.
[[nodiscard]] checkpoint::Progress first_progress(const settings::Settings& settings, const World& world);

}  // namespace rollcall::train
