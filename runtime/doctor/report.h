#pragma once

#include <string>
#include <vector>

#include "runtime/doctor/checks/check.h"
#include "runtime/doctor/job_context.h"

namespace rollcall::doctor {

/// The terminal's capabilities.
struct Style {
  bool unicode = false;  ///< ✔ ! ✘ –, otherwise words in ASCII
  bool colour = false;
};

/// Returns the report as text: one line a finding and one for its action; then the benchmark; then the verdict.
[[nodiscard]] std::string report_text(const JobContext& context, const std::vector<Checked>& findings,
                                      const Style& style);

/// Returns the report as a JSON object: {"step", "findings", "benchmark", "collectives", "seconds", "verdict"}.
[[nodiscard]] std::string report_json(const JobContext& context, const std::vector<Checked>& findings);

/// Returns the names of the checks that failed, each once.
[[nodiscard]] std::vector<std::string> failed_checks(const std::vector<Checked>& findings);

}  // namespace rollcall::doctor
