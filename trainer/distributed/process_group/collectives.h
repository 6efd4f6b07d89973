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

/// Why a device no longer carries the group's collectives, or those of another group of this process: values in its
/// tensors may be anything then. Nothing: it does, or there is none. `group` may be null. Thread-safe.
[[nodiscard]] std::optional<Error> device_failure(const Group& group);

// Agreement on how something went that each rank did for itself.

/// What all ranks know after agree(); the same on each but for `prints`.
struct Agreement {
  std::optional<Error> failure;         ///< of the lowest rank that failed; nothing where all succeeded
  std::uint32_t first_failed_rank = 0;  ///< whose failure it is
  std::uint32_t failed_ranks = 0;       ///< how many failed
  bool prints = false;  ///< this rank is the first that failed: it alone prints, all exit with the same code
};

/// Every rank contributes its own outcome and learns whether all succeeded. Collective; one all-reduce of one number
/// where they did. Errors (Unavailable): a peer was lost, so nothing is agreed on.
[[nodiscard]] Result<Agreement> agree(const Group& group, const Result<void>& mine);

/// agree() for code that only needs to go on or to end: the first failing rank's Error on every rank, or a lost peer's.
[[nodiscard]] Result<void> agree_or_fail(const Group& group, const Result<void>& mine);

/// Options of a collective whose caller waits at once: the backend may let the waiting thread do the work, instead of
/// waking one of its own. As dist.all_reduce() of PyTorch asks by default.
template <typename Options>
[[nodiscard]] Options awaited() {
  Options options;
  options.asyncOp = false;
  return options;
}

}  // namespace rollcall::process_group
