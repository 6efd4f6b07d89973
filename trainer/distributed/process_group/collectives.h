#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>
#include <cstdint>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::process_group {

// The collectives that rollcall itself needs, blocking. Every rank of the group calls the same ones in the same order,
// from one thread. A null `group` is a world of one: nothing is sent and the answer is the rank's own. Errors
// (Unavailable) of all: a peer was lost or the group's timeout passed; the error names this rank and its host.

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// This rank and the number of ranks; 0 and 1 for null.
[[nodiscard]] std::uint32_t rank_of(const Group& group);
[[nodiscard]] std::uint32_t world_size_of(const Group& group);

/// `tensor` (any shape, floating or integer, dense) becomes the sum over ranks, in place and the same on each.
[[nodiscard]] Result<void> all_reduce_sum(const Group& group, at::Tensor& tensor);

/// `tensor` becomes rank `root`'s, in place. Shape and type must be the same on all ranks.
[[nodiscard]] Result<void> broadcast(const Group& group, at::Tensor& tensor, std::uint32_t root = 0);

/// What every rank gave, by rank; sizes may differ, also be 0.
[[nodiscard]] Result<std::vector<std::vector<std::uint8_t>>> all_gather_bytes(const Group& group,
                                                                              const std::vector<std::uint8_t>& mine);

/// Returns once all ranks have called it.
[[nodiscard]] Result<void> barrier(const Group& group);

/// Runs other code that calls c10d through `group`, with the same errors.
[[nodiscard]] Result<void> guard_collective(const Group& group, const std::function<void()>& work);

}  // namespace rollcall::process_group
