#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/report/run.h"

namespace rollcall::report {

/// Returns the settings that are not the same in all runs, each with its name and its value in each run.
[[nodiscard]] std::vector<std::pair<std::string, std::vector<std::string>>> differing_settings(
    const std::vector<Run>& runs);

/// Returns a table of the runs, the best validation first: a heading, and a row for each run with the settings that
/// differ, its step, its best top-1 or mean average precision in percent, and its last training loss ("-" where there
/// is none).
[[nodiscard]] std::vector<std::vector<std::string>> comparison(const std::vector<Run>& runs);

}  // namespace rollcall::report
