#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::rendezvous {

/// A barrier of the ranks of one node that needs no launcher: one datagram socket a rank, in the abstract namespace of
/// unix(7), so nothing is left behind and nothing crosses the network. Local rank 0 hears from all others and releases
/// them. Movable; leaves on destruction. Not thread-safe.
///
/// It orders, it protects nothing: another user of the node may take a name, and then ranks go on unordered, as without
/// it. Words of other users are passed over.
class NodeBarrier {
 public:
  /// Takes this rank's place in the barrier `name`, the same text in all `local_world_size` ranks of this node and in
  /// no other run. Errors (Unavailable): the place is taken, or no socket can be made.
  [[nodiscard]] static Result<NodeBarrier> join(const std::string& name, std::uint32_t local_rank,
                                                std::uint32_t local_world_size);

  NodeBarrier(const NodeBarrier&) = delete;
  NodeBarrier& operator=(const NodeBarrier&) = delete;
  NodeBarrier(NodeBarrier&& other) noexcept;
  NodeBarrier& operator=(NodeBarrier&& other) noexcept = delete;
  ~NodeBarrier();

  /// Returns as soon as all ranks of the node have called it; false where one did not within `limit`.
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
