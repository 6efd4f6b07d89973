#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::job {

/// More names than any machine has nodes: a longer expansion is a damaged list.
inline constexpr std::size_t kMaxNodes = 1'000'000;

/// The longest host name that POSIX foresees (limits.h: _POSIX_HOST_NAME_MAX; RFC 1035 allows as much): a short list
/// cannot ask for a million names of any length.
inline constexpr std::size_t kLongestNodeName = 255;

/// Expands Slurm's compressed node list (hostlist notation of scontrol(1), `scontrol show hostnames`), in its order and
/// with duplicates kept: "jean-zay-ia[810,812-815]", "n[001-003]" (the width of a range's start pads), "a,b[1-3]",
/// "c[01-02]x[1-2]" (several brackets: the last varies fastest). Dashes and digits outside brackets are part of the
/// name. Errors (Mismatch, setting "node list"): empty, unbalanced or empty brackets, a range that is not ascending
/// numbers, a character that no node name has, more than kMaxNodes names, a name
/// longer than kLongestNodeName. Pure, thread-safe.
[[nodiscard]] Result<std::vector<std::string>> expand_node_list(std::string_view text);

/// Expands SLURM_STEP_TASKS_PER_NODE (srun(1), SLURM_TASKS_PER_NODE): "2(x3),1" is {2, 2, 2, 1}, in the node list's
/// order. Errors (Mismatch, setting "tasks per node"): empty, not that notation, a zero, more than kMaxNodes counts.
/// Pure, thread-safe.
[[nodiscard]] Result<std::vector<std::uint32_t>> expand_tasks_per_node(std::string_view text);

}  // namespace rollcall::job
