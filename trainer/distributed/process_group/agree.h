#pragma once

#include <cstdint>
#include <optional>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::process_group {

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

}  // namespace rollcall::process_group
