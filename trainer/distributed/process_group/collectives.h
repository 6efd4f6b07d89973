#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>
#include <cstdint>
#include <functional>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/watchdog/captured_collectives.h"  // for those who call collectives

namespace rollcall::process_group {

// The blocking collectives that rollcall itself needs. Every rank of the group calls the same ones in the same order,
// from one thread. A null `group` is a world of one: nothing is sent, and the result is the rank's own value. All
// return an error (Unavailable) if a peer was lost or the group's timeout passed; it names this rank and its host.

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// Return this rank and the number of ranks; 0 and 1 for a null group.
[[nodiscard]] std::uint32_t rank_of(const Group& group);
[[nodiscard]] std::uint32_t world_size_of(const Group& group);

/// Replaces `tensor` (any shape, floating or integer, dense) by the sum over ranks, the same on each.
[[nodiscard]] Result<void> all_reduce_sum(const Group& group, at::Tensor& tensor);

/// Replaces `tensor` by rank `root`'s. Shape and type must be the same on all ranks.
[[nodiscard]] Result<void> broadcast(const Group& group, at::Tensor& tensor, std::uint32_t root = 0);

/// Returns the `mine` of every rank, by rank; sizes may differ, and may be 0.
[[nodiscard]] Result<std::vector<std::vector<std::uint8_t>>> all_gather_bytes(const Group& group,
                                                                              const std::vector<std::uint8_t>& mine);

/// Returns once all ranks have called it.
[[nodiscard]] Result<void> barrier(const Group& group);

/// Runs `work`, which calls c10d through `group`, and returns the same errors.
[[nodiscard]] Result<void> guard_collective(const Group& group, const std::function<void()>& work);

/// Returns why a device can no longer run the collectives of `group`, or of another group of this process: values in
/// its tensors are undefined then. Unset if the device works or there is none. `group` may be null. Thread-safe.
[[nodiscard]] std::optional<Error> device_failure(const Group& group);

/// Returns whether groups of a device are still being aborted: threads use it, so the process must end without the
/// destructors of its static objects. Thread-safe.
[[nodiscard]] bool devices_are_being_aborted();

// The ranks agree on the outcome of work that each did for itself.

/// The result of agree(), the same on each rank except for `prints`.
struct Agreement {
  std::optional<Error> failure;         ///< error of the lowest rank that failed; unset if all succeeded
  std::uint32_t first_failed_rank = 0;  ///< the lowest rank that failed, if any
  std::uint32_t failed_ranks = 0;       ///< number of ranks that failed
  bool prints = false;  ///< whether this rank is the first that failed: it alone prints, all exit with the same code
};

/// Combines the outcomes of all ranks. Collective; costs one all-reduce of one number if all succeeded. Errors
/// (Unavailable): a peer was lost, so there is no agreement.
[[nodiscard]] Result<Agreement> agree(const Group& group, const Result<void>& mine);

/// Calls agree(), and returns the first failing rank's error on every rank, or the error of a lost peer.
[[nodiscard]] Result<void> agree_or_fail(const Group& group, const Result<void>& mine);

/// Returns options for a collective whose caller waits at once: the backend may let the waiting thread do the work,
/// instead of waking one of its own. PyTorch's dist.all_reduce() does so by default. A device's backend ignores it: the
/// host does not wait for a device.
template <typename Options>
[[nodiscard]] Options awaited() {
  Options options;
  options.asyncOp = false;
  return options;
}

}  // namespace rollcall::process_group
