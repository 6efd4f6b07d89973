#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::rendezvous {

/// A barrier among the ranks of one node that needs no launcher: each rank has a datagram socket in the abstract
/// namespace of unix(7), so that no file is left behind and no network is used. Local rank 0 collects the messages of
/// all ranks and then releases them. Movable; leaves the barrier on destruction. Not thread-safe.
///
/// The barrier provides order, not security: another user of the node can take a name, and the ranks then continue
/// unordered, as without a barrier. Messages of other users are ignored.
class NodeBarrier {
 public:
  /// Joins the barrier `name`, which is the same text in all `local_world_size` ranks of this node and differs from
  /// that of every other run. Errors (Unavailable): the name is taken, or no socket can be created.
  [[nodiscard]] static Result<NodeBarrier> join(const std::string& name, std::uint32_t local_rank,
                                                std::uint32_t local_world_size);

  NodeBarrier(const NodeBarrier&) = delete;
  NodeBarrier& operator=(const NodeBarrier&) = delete;
  NodeBarrier(NodeBarrier&& other) noexcept;
  NodeBarrier& operator=(NodeBarrier&& other) noexcept = delete;
  ~NodeBarrier();

  /// Returns once all ranks of the node have called it; false where one did not within `limit`.
  [[nodiscard]] bool wait(std::chrono::milliseconds limit);

 private:
  NodeBarrier(int descriptor, std::string name, std::uint32_t local_rank, std::uint32_t local_world_size);

  [[nodiscard]] bool wait_for_all(std::chrono::steady_clock::time_point deadline) const;
  [[nodiscard]] bool wait_for_release(std::chrono::steady_clock::time_point deadline) const;

  int descriptor_ = -1;
  std::string name_;
  std::uint32_t local_rank_ = 0;
  std::uint32_t local_world_size_ = 0;
};

}  // namespace rollcall::rendezvous
