#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/data/datasets/datasets.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {

/// Opens the data sets on every rank, although only rank 0 reads the data: it lists folders and reads the headers of
/// shards, or finds in --index-dir that nothing has changed. One rank of each node receives the indices, and the ranks
/// of a node share them in memory. Rank 0 reports its progress every ten seconds. Collective; the loss of a rank ends
/// it. `warnings` gets the warnings of the indices. If every rank has data sets in `ready` and they are the same, these
/// are returned and no rank reads the data.
///
/// Errors, the same on all ranks: the first rank's error of make_datasets(); Mismatch: the ranks have different data;
/// Unavailable: a peer was lost, or there is no memory.
[[nodiscard]] Result<data::Datasets> open_shared_data(const config::DataConfig& config, const JobContext& context,
                                                      std::vector<std::string>& warnings,
                                                      std::optional<data::Datasets> ready = {});

}  // namespace rollcall::train
