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
  bool skip_bad = false;   ///< leave out unusable files; else the first one ends the work
  bool overwrite = false;  ///< replace an existing file, and drop what a run with other options left
  std::string writer;      ///< "rollcall-pack 1.2.3"
  std::string created;     ///< ISO 8601 in UTC
};

/// Packs the files of a tree into `out`, in order: the same tree and options give the same bytes, whatever the number
/// of threads and of interruptions. The partial output of an earlier run is read back, compared with its checksums and
/// with the times and sizes of the files, and continued. Before `out` appears, all of it is read back from the device
/// and verified.
///
/// Errors: CannotCreate: `out` exists; BadData, NoInput: a bad file (not with skip_bad), or no usable file; Mismatch: a
/// partial file with other options; InputOutput; Interrupted: stop_requested(); the same call continues the work.
[[nodiscard]] Result<PackReport> pack_tree(const data::ImageTree& tree, const std::string& out,
                                           const PackOptions& options, metrics::WorkProgress& progress);

/// Makes SIGINT (Ctrl-C) and SIGTERM request a stop after the current file; finished work is kept. A second SIGINT ends
/// the process at once. Call once, before threads start.
void catch_stop_requests();

/// Returns whether a stop was requested. Thread-safe.
[[nodiscard]] bool stop_requested();

}  // namespace rollcall::pack
