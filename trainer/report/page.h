#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/report/run.h"

namespace rollcall::report {

/// Returns an HTML page with one run, or with several side by side. It needs no network and no other file, and is
/// smaller than 1 MB for up to some ten runs of any length. `runs` must not be empty.
[[nodiscard]] std::string page_html(const std::vector<Run>& runs);

/// Writes `text` to the file `path` atomically: to a file with a random name beside it, which is then renamed. Errors:
/// CannotCreate, InputOutput.
[[nodiscard]] Result<void> write_whole(const std::string& path, const std::string& text);

/// Writes the report of a training at its end: reads the record in `folder` for at most `most_seconds`, writes
/// report.html there, and returns the summary as lines, or why there is none.
[[nodiscard]] std::string report_of_run(const std::string& folder, double most_seconds) noexcept;

}  // namespace rollcall::report
