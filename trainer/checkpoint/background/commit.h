#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/rank_group.h"
#include "trainer/checkpoint/format/retention.h"
#include "trainer/checkpoint/format/writer.h"

namespace rollcall::checkpoint::background {

/// Where a checkpoint goes, and what becomes of the others there.
struct Destination {
  std::string folder;
  std::int64_t step = 0;
  std::int64_t best_step = -1;  ///< to which best.h5 is to point
  format::Retention retention{};
  std::string stage{};  ///< folder of this node in which the file is made first (see stage.h); empty: none
  /// Until a run has saved once: the folder's checkpoints of higher steps, and what lies in the stage, are of trainings
  /// that were given up for this one. The former are superseded before anything is written, the latter goes.
  std::optional<std::int64_t> line_begins_at{};
};

/// Writes `content` as <folder>/step-<step>.h5, verified (see format::write_checkpoint); only then drops what the
/// retention does not keep. Looks for room first: a full disk is told before anything is written. Collective; may be
/// called again after a failure.
///
/// Errors: those of format::write_checkpoint; CannotCreate and InputOutput also where the folder cannot be made or is
/// too full. The checkpoints in the folder are as before.
[[nodiscard]] Result<void> commit(const Destination& destination, const format::Content& content,
                                  const format::WriterOptions& options, format::RankGroup& group);

}  // namespace rollcall::checkpoint::background
