#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/checkpoint/state_parts.h"

namespace rollcall::checkpoint {

/// State of LibTorch's default CPU generator.
[[nodiscard]] std::vector<std::byte> cpu_rng_state();
/// Errors (BadData): the bytes are no such state.
[[nodiscard]] Result<void> set_cpu_rng_state(const std::vector<std::byte>& state);

/// Adds the generators' states of all ranks: /rng/rank_0000/cpu and so on. The bytes stay where they are, and outlive
/// `parts`.
void add_rng(StateParts& parts, const std::vector<std::vector<std::byte>>& rng_per_rank);
/// Adds the state of this rank's generator, and names those of the others.
void add_generator(StateParts& parts, std::uint32_t rank, std::uint32_t size);

/// The states of all ranks, by rank. Errors: those of format::CheckpointReader.
[[nodiscard]] Result<std::vector<std::vector<std::byte>>> read_rng(const OpenCheckpoint& stored,
                                                                   format::VerifyLevel level);

}  // namespace rollcall::checkpoint
