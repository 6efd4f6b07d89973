#pragma once

#include <string>

#include "runtime/base/result.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/metrics/progress_display.h"
#include "trainer/tools/pack/prepare.h"
#include "trainer/tools/pack/report.h"

namespace rollcall::pack {

struct PackOptions {
  PrepareOptions prepare;
  std::size_t threads = 1;
  bool skip_bad = false;   ///< leave files out that cannot be used; else the first one ends the work
  bool overwrite = false;  ///< replace a file that is there, drop what a run with other options left
  std::string writer;      ///< "rollcall-pack 1.2.3"
  std::string created;     ///< ISO 8601 in UTC
};

/// Packs the files of a tree into `out`, in order: the same tree and options give the same bytes, whatever the number
/// of threads and however often the work was interrupted. What an earlier run left is read back, compared with its
/// checksums and with the files' times and sizes, and continued. Before `out` appears all of it is read back from the
/// device and checked.
///
/// Errors: CannotCreate: `out` is there; BadData, NoInput: a bad file (not with skip_bad), no file left; Mismatch: an
/// unfinished file of other options; InputOutput; Interrupted: stop_requested(), the same call goes on.
[[nodiscard]] Result<PackReport> pack_tree(const data::ImageTree& tree, const std::string& out,
                                           const PackOptions& options, metrics::WorkProgress& progress);

/// INT (Ctrl-C) and TERM ask for an end, which comes after the file in work; what is done stays. A second INT ends the
/// process at once. Call once, before threads start.
void catch_stop_requests();

/// Any thread.
[[nodiscard]] bool stop_requested();

}  // namespace rollcall::pack
