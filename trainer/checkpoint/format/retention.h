#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace rollcall::checkpoint::format {

/// The path of the best validations in a checkpoint, the text of best_to_json().
inline constexpr const char* kBestPath = "/progress/best";

/// A validation whose checkpoint is to be kept.
struct Best {
  std::int64_t step = 0;
  double metric = 0;
};

/// Inserts a validation into `best`, sorted by descending metric and for equal metrics by age, and limits the list to
/// `keep`. Returns whether the validation is in the list.
bool note_validation(std::vector<Best>& best, const Best& validation, std::size_t keep);

/// Returns [{"step":345,"metric":0.75},...].
[[nodiscard]] std::string best_to_json(const std::vector<Best>& best);
/// Parses that text; empty if it is anything else.
[[nodiscard]] std::vector<Best> best_from_json(const std::string& text);

/// Which checkpoints are kept: those that any of these rules selects.
struct Retention {
  std::int64_t keep_last = 3;              ///< number of the newest ones, including the one just written; at least 1
  std::int64_t keep_every = 0;             ///< the first one of each so many steps; 0: none by this rule
  std::vector<std::int64_t> best_steps{};  ///< the best first; some may have no checkpoint
  /// The number of `best_steps` with a checkpoint that are kept, so that one whose successor could not be written
  /// stays.
  std::size_t keep_best = std::numeric_limits<std::size_t>::max();
};

/// Returns the first of retention.best_steps that are among `steps`, at most retention.keep_best, in their order. Pure.
[[nodiscard]] std::vector<std::int64_t> best_of(const std::vector<std::int64_t>& steps, const Retention& retention);

/// Returns the steps of checkpoints that may be removed after the newest of `steps` was written and verified: never the
/// newest itself, so that a folder always keeps a verified checkpoint. `steps` has any order and no duplicates.
/// Repeated calls agree: a checkpoint that keep_every kept is kept for ever. Pure.
[[nodiscard]] std::vector<std::int64_t> superfluous_steps(std::vector<std::int64_t> steps, const Retention& retention);

}  // namespace rollcall::checkpoint::format
