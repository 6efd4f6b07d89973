#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/report/run.h"

namespace rollcall::report {

/// Summarizes a run in ten lines, each with a name and a text.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> summary(const Run& run);

/// Formats the summary and the notes on the record for a terminal or a mail, with control characters replaced.
[[nodiscard]] std::string summary_text(const Run& run);

/// Formats the summary as one JSON object for scripts (docs/reference/metrics.md lists its members).
[[nodiscard]] std::string summary_json(const Run& run);

/// Returns what would have made a run cheaper and how much time it cost, the most expensive first.
[[nodiscard]] std::vector<std::string> advice(const Run& run);

/// Returns the state of a run: "finished", "failed: ...", "running: its last record is 3 min 05 s old".
[[nodiscard]] std::string state_of(const Run& run);

/// Divides the time of all starts into parts, with names and seconds, including the rest.
[[nodiscard]] std::vector<std::pair<std::string, double>> time_budget(const Run& run);

/// Formats all curves as rows `run,curve,first_step,last_step,mean,least,most`, after a line with these names.
[[nodiscard]] std::string curves_csv(const std::vector<Run>& runs);

}  // namespace rollcall::report
