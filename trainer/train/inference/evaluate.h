#pragma once

#include "runtime/base/result.h"
#include "trainer/train/job_context.h"
#include "trainer/train/session.h"

namespace rollcall::train {

/// Implements --evaluate: evaluates the weights of a file on labelled images with all ranks. Rank 0 prints the results
/// and writes evaluation.json, classes.csv and confusion.csv to the folder `evaluation` in the run's folder.
/// Collective.
///
/// Errors: Mismatch: the model or the classes of the data are others than the file's; InputOutput, BadData: more images
/// cannot be read than --max-bad-samples allows; those of reading the file and the data and of writing.
[[nodiscard]] Result<void> evaluate(const SessionInput& input, const JobContext& context);

}  // namespace rollcall::train
