#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"

// What ranks tell each other before and between steps. All are collective. Errors (Unavailable): a peer was lost.
namespace rollcall::train {

/// What each rank tells, by rank.
[[nodiscard]] Result<std::vector<nlohmann::json>> told_by_ranks(const process_group::Group& group,
                                                                const nlohmann::json& mine);

/// Rank 0's numbers on all ranks, which give equally many.
[[nodiscard]] Result<std::vector<std::int64_t>> numbers_of_rank_zero(const process_group::Group& group,
                                                                     const std::vector<std::int64_t>& mine);

/// The text of `rank` on all ranks.
[[nodiscard]] Result<std::string> text_of_rank(std::uint32_t rank, const process_group::Group& group,
                                               const std::string& mine);

}  // namespace rollcall::train
