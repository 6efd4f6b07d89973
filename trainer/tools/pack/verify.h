#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/metrics/progress_display.h"

namespace rollcall::pack {

struct VerifyReport {
  std::string path;
  std::string format_version;
  bool filled_edges = false;  ///< PackedFile::may_have_filled_edges()
  std::uint64_t samples = 0;
  std::vector<std::string> damaged;  ///< names of the samples whose checksum differs
};

/// Reads a packed file whole and checks every checksum. Errors: those of PackedFile::open(); BadData: a damaged table
/// of names; InputOutput; Interrupted. Damaged samples are no error here, but in the report.
[[nodiscard]] Result<VerifyReport> verify_file(const std::string& path, std::size_t threads,
                                               metrics::WorkProgress& progress);

}  // namespace rollcall::pack
