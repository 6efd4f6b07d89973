#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/config/train_config.h"
#include "trainer/metrics/metrics_writer.h"
#include "trainer/train/step/training.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Version of the records of metrics.jsonl (docs/reference/metrics.md): a reader of another one leaves out what it does
/// not know.
inline constexpr std::int64_t kMetricsSchema = 1;

/// All that a run knows of itself before its first step. References for the time of the call.
struct RunFacts {
  const step::ResolvedStep& step;
  const Environment& environment;
  const settings::LaunchSettings& launch;
  const config::TrainConfig& config;
  const World& world;
  const Training& training;
  const checkpoint::Progress& progress;
  const std::vector<std::string>& arguments;
  const std::vector<std::string>& warnings;
};

/// {"event":"begin", ...}: what runs where, with which settings and environment, each with its origin. Values of
/// variables whose names look like secrets, and those of setting `variables`, are left out.
[[nodiscard]] metrics::Record begin_record(const RunFacts& facts);

/// A command line as a checkpoint keeps it, which others may read: without the values of --variables and of options
/// whose names look like secrets, in both spellings (`--variables=X`, `--variables X`). Pure.
[[nodiscard]] std::vector<std::string> shown_arguments(std::vector<std::string> arguments);

/// For people: what is about to be trained, on what, by whom, how often Slurm restarted it.
[[nodiscard]] std::vector<std::string> header_lines(const RunFacts& facts);

}  // namespace rollcall::train
