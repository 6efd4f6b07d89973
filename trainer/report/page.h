#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/report/run.h"

namespace rollcall::report {

/// A run, or several side by side, as one HTML page that needs nothing else: no network, no other file. At least one
/// run. Less than 1 MB for up to some ten runs, however long these were.
[[nodiscard]] std::string page_html(const std::vector<Run>& runs);

/// Puts `text` into the file `path`, which is whole whenever somebody looks: written beside it, under a name that
/// nobody can guess, and renamed. Errors: CannotCreate, InputOutput.
[[nodiscard]] Result<void> write_whole(const std::string& path, const std::string& text);

/// What a training does at its end: reads the record of `folder` for at most `most_seconds`, writes report.html into
/// it, and returns the summary as lines for people, or why there is none. Nothing is thrown.
[[nodiscard]] std::string report_of_run(const std::string& folder, double most_seconds) noexcept;

}  // namespace rollcall::report
