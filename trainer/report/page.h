#pragma once

#include <string>
#include <vector>

#include "trainer/report/run.h"

namespace rollcall::report {

/// A run, or several side by side, as one HTML page that needs nothing else: no network, no other file. At least one
/// run. Less than 1 MB for up to some ten runs, however long these were.
[[nodiscard]] std::string page_html(const std::vector<Run>& runs);

}  // namespace rollcall::report
