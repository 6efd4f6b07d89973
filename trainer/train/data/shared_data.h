#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/data/datasets/datasets.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// The data sets on every rank, where rank 0 alone has looked through the data: it lists folders and reads the headers
/// of shards, or finds in --index-dir that nothing has changed; one rank of each node receives the indices, and the
/// ranks of a node share them in memory. Rank 0 says how far it is, every ten seconds. Collective; a rank that is lost
/// meanwhile ends it. `warnings` gets those of the indices. Where every rank has data sets `ready`, and
/// they are the same, nobody looks: those count.
///
/// Errors, the same on all ranks: the first rank's of make_datasets(); Mismatch: ranks have other data; Unavailable: a
/// peer was lost, no memory.
[[nodiscard]] Result<data::Datasets> open_shared_data(const config::DataConfig& config, const World& world,
                                                      std::vector<std::string>& warnings,
                                                      std::optional<data::Datasets> ready = {});

}  // namespace rollcall::train
