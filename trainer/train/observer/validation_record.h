#pragma once

#include <optional>
#include <string>

#include "trainer/checkpoint/progress.h"
#include "trainer/metrics/metrics_writer.h"
#include "trainer/metrics/running_average.h"

namespace rollcall::train {

/// Returns "loss 1.2000  top-1 50.00 %  top-5 90.00 %", with "mAP 70.00 %" where images may have several classes.
[[nodiscard]] std::string quality_text(const metrics::Validation& found);

/// Returns the record of a validation in metrics.jsonl. `average`: with the average of the weights (--ema).
[[nodiscard]] metrics::Record validation_record(const checkpoint::Progress& progress, const metrics::Validation& model,
                                                const std::optional<metrics::Validation>& average, double seconds);

}  // namespace rollcall::train
