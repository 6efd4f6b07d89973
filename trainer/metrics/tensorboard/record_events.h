#pragma once

#include <string>
#include <vector>

#include "trainer/metrics/metrics_writer.h"

namespace rollcall::metrics::tensorboard {

/// Returns the events (event.h) for a record of metrics.jsonl. For a start: an event that drops later steps of earlier
/// starts, and a table of the settings. For a step or a validation: points of curves. For other records: none. Null
/// numbers and an unknown rate (0) give no points. Pure.
[[nodiscard]] std::vector<std::string> events_of(const Record& record);

/// Formats {name: {"value": ..., "origin": ...}} as a table in Markdown, and escapes the values. Pure.
[[nodiscard]] std::string settings_table(const std::string& json);

}  // namespace rollcall::metrics::tensorboard
