#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace rollcall::checkpoint::format {

/// Where a checkpoint has them, as the text of best_to_json().
inline constexpr const char* kBestPath = "/progress/best";

/// A validation whose checkpoint is worth keeping.
struct Best {
  std::int64_t step = 0;
  double metric = 0;
};

/// Puts a validation among `best`, the highest metric first and of equal ones the earlier, which keeps at most `keep`
/// of them. Whether it stayed.
bool note_validation(std::vector<Best>& best, const Best& validation, std::size_t keep);

/// [{"step":345,"metric":0.75},...]
[[nodiscard]] std::string best_to_json(const std::vector<Best>& best);
/// Empty where the text is something else.
[[nodiscard]] std::vector<Best> best_from_json(const std::string& text);

/// Which checkpoints outlive the next one: those for which any of these speaks.
struct Retention {
  std::int64_t keep_last = 3;              ///< the newest so many, the one just written included; at least 1
  std::int64_t keep_every = 0;             ///< of each so many steps the first one; 0: none for that reason
  std::vector<std::int64_t> best_steps{};  ///< the best first; some may have no checkpoint
  /// Of `best_steps` the first so many that have a checkpoint: one whose successor could not be written stays.
  std::size_t keep_best = std::numeric_limits<std::size_t>::max();
};

/// The first of retention.best_steps, at most retention.keep_best, that are among `steps`, in their order. Pure.
[[nodiscard]] std::vector<std::int64_t> best_of(const std::vector<std::int64_t>& steps, const Retention& retention);

/// The steps of checkpoints that may be removed now that the newest of `steps` was written and verified: never that one
/// itself, so that a folder always keeps a checkpoint that was verified. Any order, each step once. The same answer
/// again and again: what keep_every kept once it keeps for ever. Pure.
[[nodiscard]] std::vector<std::int64_t> superfluous_steps(std::vector<std::int64_t> steps, const Retention& retention);

}  // namespace rollcall::checkpoint::format
