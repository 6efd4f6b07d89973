#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/distributed/fsdp/options.h"
#include "trainer/distributed/fsdp/row_shards.h"

namespace rollcall::parallel::fsdp {

/// A parameter on its way into a group.
struct Member {
  std::string name;
  at::Tensor tensor;        ///< the module's own
  bool keeps_type = false;  ///< computes in its own type whatever Options::parameter_type says
};

/// Parameters of a group that travel in one message of each collective: one by itself, or several side by side. What
/// travels by itself is sent from and received into the place where it is used. Others share a buffer, out of which
/// they are copied: the parts of all ranks lie in it by rank, and those of a parameter not beside each other.
struct Bundle {
  std::size_t first = 0;  ///< of the group's parameters, in order
  std::size_t count = 0;
  bool in_place = false;  ///< one parameter, whose parts lie in it as they do in a message
};

/// Whether a member travels by itself: its rows divide evenly, so that it lies in memory as the ranks' parts of it do
/// back to back; it is long enough for a message of its own to cost next to nothing; and no smaller group of ranks
/// needs the parts of a whole block (AfterForward::SmallShard).
[[nodiscard]] bool travels_alone(const Member& member, std::int64_t ranks, const Options& options);

/// Puts the members in the group's order: first those that take gradients, and those that share a buffer together.
void sort_for_travel(std::vector<Member>& members, std::int64_t ranks, const Options& options);

/// The bundles of sorted members.
[[nodiscard]] std::vector<Bundle> bundles_of(const std::vector<Member>& members, std::int64_t ranks,
                                             const Options& options);

}  // namespace rollcall::parallel::fsdp
