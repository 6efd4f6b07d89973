#pragma once

#include <cstdint>
#include <vector>

namespace rollcall::checkpoint::format {

/// Which checkpoints outlive the next one: those for which any of these speaks.
struct Retention {
  std::int64_t keep_last = 3;              ///< the newest so many, the one just written included; at least 1
  std::int64_t keep_every = 0;             ///< of each so many steps the first one; 0: none for that reason
  std::vector<std::int64_t> best_steps{};  ///< these
};

/// The steps of checkpoints that may be removed now that the newest of `steps` was written and verified: never that one
/// itself, so that a folder always keeps a checkpoint that was verified. Any order, each step once. The same answer
/// again and again: what keep_every kept once it keeps for ever. Pure.
[[nodiscard]] std::vector<std::int64_t> superfluous_steps(std::vector<std::int64_t> steps, const Retention& retention);

}  // namespace rollcall::checkpoint::format
