#pragma once

#include <string>
#include <vector>

#include "trainer/metrics/metrics_writer.h"

namespace rollcall::metrics::tensorboard {

/// The events (event.h) that show a record of metrics.jsonl: a start that drops what earlier ones did of later steps,
/// and its settings as a table; points of curves of a step and a validation. None for other records. Numbers that JSON
/// lacks, which the record has as null, and a rate that is not known yet (0) are no points. Pure.
[[nodiscard]] std::vector<std::string> events_of(const Record& record);

/// {name: {"value": ..., "origin": ...}} as a table in Markdown, whatever the values hold. Pure.
[[nodiscard]] std::string settings_table(const std::string& json);

}  // namespace rollcall::metrics::tensorboard
