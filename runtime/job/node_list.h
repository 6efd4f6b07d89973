#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::job {

/// The largest number of names in a node list. No machine has more nodes, so that a longer list is damaged.
inline constexpr std::size_t kMaxNodes = 1'000'000;

/// The longest host name of POSIX (limits.h: _POSIX_HOST_NAME_MAX) and RFC 1035. It bounds the memory for the expansion
/// of a short list.
inline constexpr std::size_t kLongestNodeName = 255;

/// Expands Slurm's compressed node list (hostlist notation of scontrol(1), `scontrol show hostnames`). It keeps the
/// order and duplicates: "jean-zay-ia[810,812-815]", "n[001-003]" (numbers are padded to the width of the range's
/// start), "a,b[1-3]", "c[01-02]x[1-2]" (the last bracket varies fastest). Dashes and digits outside brackets are part
/// of the name. Errors (Mismatch, setting "node list"): an empty name, an unclosed or empty bracket, an invalid range,
/// a character that node names cannot have, more than kMaxNodes names, a name longer than kLongestNodeName. Pure,
/// thread-safe.
[[nodiscard]] Result<std::vector<std::string>> expand_node_list(std::string_view text);

/// Expands SLURM_STEP_TASKS_PER_NODE (srun(1), SLURM_TASKS_PER_NODE): "2(x3),1" is {2, 2, 2, 1}, in the node list's
/// order. Errors (Mismatch, setting "tasks per node"): empty, not that notation, a zero, more than kMaxNodes counts.
/// Pure, thread-safe.
[[nodiscard]] Result<std::vector<std::uint32_t>> expand_tasks_per_node(std::string_view text);

}  // namespace rollcall::job
