#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/report/run.h"

namespace rollcall::report {

/// What matters of a run, for people: a name and a text for each of ten lines.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> summary(const Run& run);

/// The same as lines for a terminal or a mail, control characters replaced; notes on the record behind them.
[[nodiscard]] std::string summary_text(const Run& run);

/// One JSON object for scripts (docs/reference/metrics.md names its members).
[[nodiscard]] std::string summary_json(const Run& run);

/// What would have made a run cheaper, the most first; each with what it cost. Empty where nothing stands out.
[[nodiscard]] std::vector<std::string> advice(const Run& run);

/// What became of it: "finished", "failed: ...", "still running, or was killed: its last record is 3 min 05 s old".
[[nodiscard]] std::string state_of(const Run& run);

/// Where the time of all starts went: name and seconds, the rest included.
[[nodiscard]] std::vector<std::pair<std::string, double>> time_budget(const Run& run);

/// All curves as rows `run,curve,first_step,last_step,mean,least,most`, with a line of names first.
[[nodiscard]] std::string curves_csv(const std::vector<Run>& runs);

}  // namespace rollcall::report
