#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/retention.h"
#include "trainer/metrics/running_average.h"

namespace rollcall::checkpoint {

class OpenCheckpoint;

using format::Best;

/// By which the images of a training are known again, before they were split: their number and checksums; below 0: not
/// known. The meaning is the data layer's.
struct DataSet {
  std::int64_t images = 0;  ///< 0: a file that does not say
  std::int64_t class_names = -1;
  std::int64_t labels = -1;
  std::int64_t picture_names = -1;
};

struct DataParts {
  DataSet train{};
  DataSet valid{};
};

/// Where a training stands: everything that decides which sample comes next, the best result so far, and the sums that
/// reports are made of, so that an interruption does not show in them.
struct Progress {
  std::int64_t epoch = 0;            ///< current epoch, from 0
  std::int64_t step_in_epoch = 0;    ///< steps done in it
  std::int64_t global_step = 0;      ///< steps done in all epochs
  std::int64_t sample_position = 0;  ///< samples done in the epoch's global order, of all ranks
  double best_metric = 0;            ///< highest validation metric; meaningless while best_step < 0
  std::int64_t best_step = -1;       ///< the global step at which it was reached
  std::int64_t world_size = 1;
  std::int64_t batch_size = 0;  ///< per rank and step, over all batches whose gradients are accumulated
  /// Images of a step, of all ranks, that the user asked for; fewer or more are in it while the ranks do not divide it.
  std::int64_t global_batch_asked = 0;
  std::uint64_t seed = 0;
  std::int64_t dataset_size = 0;           ///< training samples that the order is of; 0: a file that does not say
  DataParts data{};                        ///< of which those, and the validation images, are a part
  double loss_scale = 65536;               ///< of the next step, in float16; see precision::LossScaler
  std::int64_t loss_scale_good_steps = 0;  ///< steps with finite gradients since it changed
  std::int64_t skipped_steps = 0;          ///< steps left out because gradients were not finite
  std::int64_t validation_due = 0;         ///< > 0: the model of this step is to be validated before training goes on;
                                           ///< 1 and one more for each run that did nothing else, and was interrupted
  std::vector<Best> best{};                ///< the best validations, the highest metric first
  metrics::RunningAverage epoch_totals{};  ///< training, all ranks: since the epoch began
  metrics::RunningAverage unrecorded{};    ///< training, all ranks: since the last record of metrics.jsonl
};

/// Adds /progress/... and /sampler/...
void add_progress(std::map<std::string, format::Value>& values, const Progress& progress);

/// Errors (BadData): there is none, or a number is none that a training has: a position below 0; (Mismatch) a part is
/// missing, so that another version wrote it.
[[nodiscard]] Result<Progress> read_progress(const OpenCheckpoint& stored);

/// All of it, for another rank of the same program.
[[nodiscard]] std::string progress_to_text(const Progress& progress);
/// What progress_to_text() gave; throws std::exception for anything else.
[[nodiscard]] Progress progress_of_text(const std::string& text);

}  // namespace rollcall::checkpoint
