#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/file_state.h"

namespace rollcall::checkpoint_tool {

/// A file in a folder of checkpoints, as `ls` shows it: its metadata were checked, its tensors not.
struct SeenFile {
  std::string path;
  checkpoint::format::FileState state = checkpoint::format::FileState::Foreign;
  std::string reason;  ///< why it is damaged or unreadable
  std::uint64_t bytes = 0;
  std::string created;  ///< ISO 8601, UTC; empty where the file does not tell
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> epoch;
  std::optional<double> best_metric;      ///< highest of the run until then
  std::optional<std::int64_t> best_step;  ///< where that was
  bool is_best = false;                   ///< best.h5 points to it
};

/// A file, or of a folder all checkpoints, what became of them and what was to become one (newest first), and further
/// files whose names end in ".h5". Errors: NoInput where `path` is not there or cannot be listed.
[[nodiscard]] Result<std::vector<SeenFile>> look_at(const std::string& path);

}  // namespace rollcall::checkpoint_tool
