#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::config {

/// The part of a rank in a step: `accumulation` micro-batches of `batch_size` images.
struct RankBatch {
  std::int64_t batch_size = 0;
  std::int64_t accumulation = 0;
};

/// Divides a step of `images` among `ranks` (both at least 1) into the fewest micro-batches of at most `most` images
/// each. Returns nothing where `ranks` does not divide `images`, or where that would take more than twice as many
/// micro-batches as `most` needs. Pure.
[[nodiscard]] std::optional<RankBatch> divide_global_batch(std::int64_t images, std::int64_t ranks, std::int64_t most);

/// Replaces --global-batch with the batch-size and grad-accumulation that `world_size` ranks need, or the virtual ranks
/// of --elastic-exact, and sets lr-scaling to none, since --lr is then the rate of a step. Does nothing if global-batch
/// is 0. An elastic training, whose world may change at any time, takes the nearest number of images that its ranks can
/// divide; the returned text is a warning of that, otherwise empty. Error (Usage): the images cannot be divided among
/// so many ranks; it names the nearest number that can.
[[nodiscard]] Result<std::string> apply_global_batch(settings::Settings& settings, std::int64_t world_size);

}  // namespace rollcall::config
