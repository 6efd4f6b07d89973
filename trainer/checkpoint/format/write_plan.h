#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/blocks.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/checkpoint/format/rank_group.h"
#include "trainer/checkpoint/format/value_bytes.h"

namespace rollcall::checkpoint::format {

/// All data sets of `content`: its tensors, then `values`.
[[nodiscard]] std::vector<ManifestEntry> entries_of(const Content& content, const std::vector<StoredValue>& values);

/// What rank 0 tells the others: which file, and where in it each data set is. No checksums yet.
struct WritePlan {
  std::string temporary;
  std::vector<ManifestEntry> datasets;
};

/// `plan` becomes rank 0's. Collective. Errors: as of RankGroup; Internal where something else arrives.
[[nodiscard]] Result<void> share(WritePlan& plan, RankGroup& group);

/// This rank's bytes and their places; `values` only on rank 0. Errors (Mismatch): a tensor that `plan` does not have,
/// or more bytes than it has.
[[nodiscard]] Result<std::vector<PlacedSlice>> place(const Content& content, const std::vector<StoredValue>& values,
                                                     const WritePlan& plan);

}  // namespace rollcall::checkpoint::format
