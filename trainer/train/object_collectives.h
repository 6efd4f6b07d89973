#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/process_group/collectives.h"

// Collectives that exchange JSON values, numbers, texts and errors between ranks. Errors (Unavailable) of all: a peer
// was lost.
namespace rollcall::train {

/// Returns the error of the first rank that has one, on every rank.
template <typename T>
[[nodiscard]] Result<void> everywhere(const process_group::Group& group, const Result<T>& mine) {
  return process_group::agree_or_fail(group, mine ? Result<void>() : Result<void>(mine.error()));
}

/// Returns the value of each rank, by rank.
[[nodiscard]] Result<std::vector<nlohmann::json>> all_gather_json(const process_group::Group& group,
                                                                  const nlohmann::json& mine);

/// Returns rank 0's numbers on all ranks. All ranks pass the same count of numbers.
[[nodiscard]] Result<std::vector<std::int64_t>> broadcast_numbers(const process_group::Group& group,
                                                                  const std::vector<std::int64_t>& mine);

/// Returns the text of `rank` on all ranks.
[[nodiscard]] Result<std::string> broadcast_text(std::uint32_t rank, const process_group::Group& group,
                                                 const std::string& mine);

}  // namespace rollcall::train
