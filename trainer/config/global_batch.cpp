#include "trainer/config/global_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/base/text.h"
#include "trainer/config/train_config.h"

namespace rollcall::config {
namespace {

/// Returns the number nearest to `images` that can be divided. One is found within ranks * most of it.
std::int64_t nearest_that_works(std::int64_t images, std::int64_t ranks, std::int64_t most) {
  for (std::int64_t distance = 1;; ++distance) {
    for (const std::int64_t other : {images - distance, images + distance}) {
      if (other > 0 && divide_global_batch(other, ranks, most)) {
        return other;
      }
    }
  }
}

}  // namespace

std::optional<RankBatch> divide_global_batch(std::int64_t images, std::int64_t ranks, std::int64_t most) {
  if (images % ranks != 0) {
    return std::nullopt;
  }
  const std::int64_t share = images / ranks;
  const std::int64_t fewest = (share + most - 1) / most;
  for (std::int64_t accumulation = fewest; accumulation <= std::min(2 * fewest, share); ++accumulation) {
    if (share % accumulation == 0) {
      return RankBatch{share / accumulation, accumulation};
    }
  }
  return std::nullopt;
}

Result<void> apply_global_batch(settings::Settings& settings, std::int64_t world_size) {
  const std::int64_t images = settings.integer("global-batch");
  if (images == 0) {
    return {};
  }
  RETURN_IF_ERROR(check_options_have_effect(settings));  // before grad-accumulation is replaced
  const std::int64_t virtual_ranks = settings.integer("elastic-exact");
  const std::int64_t ranks = virtual_ranks > 0 ? virtual_ranks : world_size;
  const std::int64_t most = settings.integer("batch-size");
  const std::optional<RankBatch> part = divide_global_batch(images, ranks, most);
  if (!part) {
    return fail(
        "--global-batch", std::to_string(images),
        fmt::format("cannot be divided among {} into micro-batches of at most {}", counted(ranks, "rank"),
                    counted(most, "image")),
        fmt::format("--global-batch={}, or using another number of ranks", nearest_that_works(images, ranks, most)));
  }
  const std::string origin = "global-batch";
  RETURN_IF_ERROR(settings.set("batch-size", std::to_string(part->batch_size), origin));
  RETURN_IF_ERROR(settings.set("grad-accumulation", std::to_string(part->accumulation), origin));
  return settings.set("lr-scaling", "none", origin);
}

}  // namespace rollcall::config
