#pragma once

#include "trainer/checkpoint/format/rank_group.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// The ranks of a process group as those who write and load checkpoints together. One thread at a time may use the
/// process group, whatever for.
class CheckpointGroup final : public checkpoint::format::RankGroup {
 public:
  /// A null `group` is a world of one.
  explicit CheckpointGroup(process_group::Group group) : group_(std::move(group)) {}

  [[nodiscard]] std::uint32_t rank() const override { return process_group::rank_of(group_); }
  [[nodiscard]] std::uint32_t size() const override { return process_group::world_size_of(group_); }
  [[nodiscard]] Result<void> broadcast(std::vector<std::byte>& bytes) override;
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> gather(std::span<const std::byte> mine) override;

 private:
  process_group::Group group_;
};

/// A process group of all ranks that nothing else uses, so that a thread of its own can write checkpoints with it.
/// Null in a world of one. Collective. Errors: those of make_process_group().
[[nodiscard]] Result<process_group::Group> make_saving_group(const World& world);

}  // namespace rollcall::train
