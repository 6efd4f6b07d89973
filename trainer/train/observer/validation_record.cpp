#include "trainer/train/observer/validation_record.h"

#include <fmt/format.h>

namespace rollcall::train {
namespace {

/// Adds the means of a validation, whose names begin with `prefix`.
void add(metrics::Record& record, const std::string& prefix, const metrics::Validation& found) {
  const metrics::RunningAverage& sums = found.sums;
  record.emplace_back(prefix + "loss", sums.loss());
  record.emplace_back(prefix + "top1", sums.top1());
  record.emplace_back(prefix + "top5", sums.top5());
  if (found.mean_average_precision) {
    record.emplace_back(prefix + "mean_average_precision", *found.mean_average_precision);
  }
}

}  // namespace

std::string quality_text(const metrics::Validation& found) {
  const metrics::RunningAverage& sums = found.sums;
  const std::optional<double>& precision = found.mean_average_precision;
  return fmt::format("loss {:.4f}{}  top-1 {:.2f} %  top-5 {:.2f} %", sums.loss(),
                     precision ? fmt::format("  mAP {:.2f} %", 100 * *precision) : "", 100 * sums.top1(),
                     100 * sums.top5());
}

metrics::Record validation_record(const checkpoint::Progress& progress, const metrics::Validation& model,
                                  const std::optional<metrics::Validation>& average, double seconds) {
  metrics::Record record{
      {"event", std::string("validation")}, {"epoch", progress.epoch}, {"step", progress.global_step}};
  add(record, "", model);
  record.emplace_back("samples", model.sums.samples);
  record.emplace_back("bad_samples", model.sums.bad());
  record.emplace_back("unread_samples", model.sums.unread);
  record.emplace_back("seconds", seconds);
  if (average) {
    add(record, "ema_", *average);
  }
  return record;
}

}  // namespace rollcall::train
