#pragma once

#include <cstddef>
#include <cstdint>
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

}  // namespace rollcall::checkpoint::format
