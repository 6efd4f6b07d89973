#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/config/train_config.h"
#include "trainer/metrics/metrics_writer.h"
#include "trainer/train/job_context.h"
#include "trainer/train/step/training.h"

namespace rollcall::train {

/// The version of the records in metrics.jsonl (docs/reference/metrics.md): a reader of another version ignores what it
/// does not know.
inline constexpr std::int64_t kMetricsSchema = 1;

/// The properties of a run that are known before its first step. The references are valid during the call.
struct RunFacts {
  const step::ResolvedStep& step;
  const Environment& environment;
  const settings::LaunchSettings& launch;
  const config::TrainConfig& config;
  const JobContext& context;
  const Training& training;
  const checkpoint::Progress& progress;
  const std::vector<std::string>& arguments;
  const std::vector<std::string>& warnings;
};

/// Returns {"event":"begin", ...}: what runs where, with which settings and environment, each with its origin. Excludes
/// values of variables whose names look like secrets, and those of setting `variables`.
[[nodiscard]] metrics::Record begin_record(const RunFacts& facts);

/// Returns a command line without secrets, for checkpoints, which others may read: it hides the values of --variables
/// and of options whose names look like secrets, in both spellings (`--variables=X`, `--variables X`). Pure.
[[nodiscard]] std::vector<std::string> shown_arguments(std::vector<std::string> arguments);

/// Returns lines for people: what is about to be trained, on which data, by which ranks, and how often Slurm restarted
/// it.
[[nodiscard]] std::vector<std::string> header_lines(const RunFacts& facts);

}  // namespace rollcall::train
