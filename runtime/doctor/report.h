#pragma once

#include <string>
#include <vector>

#include "runtime/doctor/checks/check.h"
#include "runtime/doctor/world.h"

namespace rollcall::doctor {

/// How the terminal wants it.
struct Style {
  bool unicode = false;  ///< ✔ ! ✘ –, otherwise words in ASCII
  bool colour = false;
};

/// The report as a table, one line a finding and one more for what to do; then the benchmark; then the verdict.
[[nodiscard]] std::string report_text(const World& world, const std::vector<Checked>& findings, const Style& style);

/// The same as one JSON object: {"step", "findings", "benchmark", "collectives", "seconds", "verdict"}.
[[nodiscard]] std::string report_json(const World& world, const std::vector<Checked>& findings);

/// The names of the checks that found something bad, each once.
[[nodiscard]] std::vector<std::string> failed_checks(const std::vector<Checked>& findings);

}  // namespace rollcall::doctor
