#include "trainer/config/global_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/base/text.h"

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

Result<std::string> apply_global_batch(settings::Settings& settings, std::int64_t world_size) {
  const std::int64_t images = settings.integer("global-batch");
  if (images == 0) {
    return std::string();
  }
  const std::int64_t virtual_ranks = settings.integer("elastic-exact");
  const std::int64_t ranks = virtual_ranks > 0 ? virtual_ranks : world_size;
  const std::int64_t most = settings.integer("batch-size");
  std::optional<RankBatch> part = divide_global_batch(images, ranks, most);
  std::string warning;
  if (!part) {
    const std::int64_t other = nearest_that_works(images, ranks, most);
    const std::string reason =
        fmt::format("cannot be divided among {} into micro-batches of at most {}",
                    counted(ranks, virtual_ranks > 0 ? "virtual rank" : "rank"), counted(most, "image"));
    if (!settings.on("elastic")) {
      return fail("--global-batch", std::to_string(images), reason,
                  fmt::format("--global-batch={}, or using another number of ranks", other));
    }
    part = divide_global_batch(other, ranks, most);
    warning =
        fmt::format("--global-batch: {}: {}; continuing with steps of {}", images, reason, counted(other, "image"));
  }
  const std::string origin = "global-batch";
  RETURN_IF_ERROR(settings.set("batch-size", std::to_string(part->batch_size), origin));
  RETURN_IF_ERROR(settings.set("grad-accumulation", std::to_string(part->accumulation), origin));
  RETURN_IF_ERROR(settings.set("lr-scaling", "none", origin));
  return warning;
}

}  // namespace rollcall::config
