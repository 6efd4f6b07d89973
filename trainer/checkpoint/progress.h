#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/retention.h"
#include "trainer/metrics/running_average.h"

namespace rollcall::checkpoint {

class OpenCheckpoint;

using format::Best;

/// The identity of a training's images before they were split: their number and checksums; below 0: unknown. The data
/// layer defines the checksums.
struct DataSet {
  std::int64_t images = 0;  ///< 0: the file does not say
  std::int64_t class_names = -1;
  std::int64_t labels = -1;
  std::int64_t picture_names = -1;
  std::int64_t parts = -1;  ///< of a list that names the part of each image
};

struct DataParts {
  DataSet train{};
  DataSet valid{};
};

/// The position of a training: everything that determines the next sample, the best result so far, and the sums for
/// reports, so that an interruption does not show in them.
struct Progress {
  std::int64_t epoch = 0;            ///< current epoch, from 0
  std::int64_t step_in_epoch = 0;    ///< steps done in the epoch
  std::int64_t global_step = 0;      ///< steps done in all epochs
  std::int64_t sample_position = 0;  ///< samples done in the epoch's global order, by all ranks
  double best_metric = 0;            ///< highest validation metric; undefined while best_step < 0
  std::int64_t best_step = -1;       ///< global step of that validation; -1: none
  std::int64_t world_size = 1;
  std::int64_t batch_size = 0;  ///< per rank and step, over all accumulated batches
  /// Images of a step over all ranks that the user requested; the actual number differs if the ranks do not divide it.
  std::int64_t global_batch_asked = 0;
  std::uint64_t seed = 0;
  std::int64_t dataset_size = 0;           ///< training samples in the order; 0: the file does not say
  DataParts data{};                        ///< data sets of which the training and validation images are a part
  double loss_scale = 65536;               ///< of the next step, in float16; see precision::LossScaler
  std::int64_t loss_scale_good_steps = 0;  ///< steps with finite gradients since the scale changed
  std::int64_t skipped_steps = 0;          ///< steps skipped because gradients were not finite
  /// > 0: validate the model of this step before training continues; 1, plus one for each run that did nothing else and
  /// was interrupted.
  std::int64_t validation_due = 0;
  std::vector<Best> best{};                ///< best validations, the highest metric first
  metrics::RunningAverage epoch_totals{};  ///< training totals of all ranks since the epoch began
  metrics::RunningAverage unrecorded{};    ///< training totals of all ranks since the last record of metrics.jsonl
  std::int64_t not_better = 0;             ///< validations since that of `best_step`
};

/// Adds the values /progress/... and /sampler/...
void add_progress(std::map<std::string, format::Value>& values, const Progress& progress);

/// Reads what add_progress() added. Errors: BadData: there is no progress, or a number is invalid, as a position below
/// 0; Mismatch: a value is missing, so that another version wrote it.
[[nodiscard]] Result<Progress> read_progress(const OpenCheckpoint& stored);

/// Serialises it for another rank of the same program.
[[nodiscard]] std::string progress_to_text(const Progress& progress);
/// Parses the text of progress_to_text(); throws std::exception for any other text.
[[nodiscard]] Progress progress_of_text(const std::string& text);

}  // namespace rollcall::checkpoint
