#pragma once

#include <optional>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/train/earlier_training.h"
#include "trainer/train/neighbour_copies.h"
#include "trainer/train/recovery.h"
#include "trainer/train/survival.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What the ranks of a new world go on from in place of a file, the same on all of them; at most one of both.
struct FoundInMemory {
  std::optional<Living> living = {};       ///< a rank has the whole model
  std::optional<FoundCopies> copies = {};  ///< the ranks have all parts of a divided one together

  [[nodiscard]] bool any() const { return living || copies; }
  /// Of the rank that had it; without a cause where there is nothing.
  [[nodiscard]] Recovery recovery() const;
  /// As look_back() says of a file. Errors: Internal: copies are of another step than their name says.
  [[nodiscard]] Result<LookBack> look_back() const;
};

/// Looks for it. Nothing where this run has saved more since: ranks that were cut off may come back with less than
/// others have saved who have ended; `kept` is given up then, as its model is about to be loaded over. Collective.
/// Errors: Unavailable: a peer was lost; those of restarted_job_goes_on() and find_earlier_training().
[[nodiscard]] Result<FoundInMemory> find_in_memory(std::optional<Kept>& kept, const NeighbourCopies& copies,
                                                   const config::TrainConfig& config, const Environment& environment,
                                                   const World& world);

}  // namespace rollcall::train
