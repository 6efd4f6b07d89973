#include "trainer/train/step_size.h"

#include <fmt/format.h>

#include <algorithm>

namespace rollcall::train {
namespace {

std::string ranks(std::int64_t number) { return fmt::format("{} rank{}", number, number == 1 ? "" : "s"); }

/// The setting that does not fit, its value, and what would.
struct Remedy {
  std::string setting;
  std::int64_t value = 0;
  std::string action;
};

Remedy remedy_for(std::int64_t images, const StepSize& now) {
  if (const auto accumulation = accumulation_for(images, now.world_size, now.batch_size)) {
    return {"--grad-accumulation", now.accumulation,
            fmt::format("--grad-accumulation={}, or leaving it out", *accumulation)};
  }
  if (const auto batch_size = batch_size_for(images, now.world_size, now.batch_size)) {
    return {"--batch-size", now.batch_size,
            fmt::format("--batch-size={} --grad-accumulation={} (where --lr is scaled by the batches of a step, with "
                        "--resume=continue-with-changes and the --lr that keeps the rate)",
                        *batch_size, *accumulation_for(images, now.world_size, *batch_size))};
  }
  return {"--batch-size", now.batch_size, fmt::format("a number of ranks that divides {}", images)};
}

}  // namespace

std::optional<std::int64_t> accumulation_for(std::int64_t images, std::int64_t world_size, std::int64_t batch_size) {
  const std::int64_t of_micro_batch = world_size * batch_size;
  return images > 0 && images % of_micro_batch == 0 ? std::optional(images / of_micro_batch) : std::nullopt;
}

std::optional<std::int64_t> batch_size_for(std::int64_t images, std::int64_t world_size, std::int64_t most) {
  for (std::int64_t size = std::min(most, images / world_size); size > 0; --size) {
    if (accumulation_for(images, world_size, size)) {
      return size;
    }
  }
  return std::nullopt;
}

StepSizeChange step_size_change(const StepSize& then, std::int64_t asked, const StepSize& now) {
  if (then.world_size == now.world_size && then.images() == now.images()) {
    return {};
  }
  if (then.images() == now.images()) {
    return {.note = fmt::format("a step keeps the {} images that it had with {} (--grad-accumulation={})",
                                then.images(), ranks(then.world_size), now.accumulation),
            .warning = {}};
  }
  if (now.images() == asked) {
    return {.note = fmt::format("a step has the {} images again that were asked for, and had {} with {} "
                                "(--grad-accumulation={})",
                                asked, then.images(), ranks(then.world_size), now.accumulation),
            .warning = {}};
  }
  const Remedy remedy = remedy_for(asked, now);
  return {.note = {},
          .warning = fmt::format(
              "{}: {}: a step has {} images with {}, and had {} with {} in the checkpoint{}: "
              "steps and what the end of an epoch leaves out are others, and the learning rate's "
              "schedule goes on where the epochs are; to keep them try {}",
              remedy.setting, remedy.value, now.images(), ranks(now.world_size), then.images(), ranks(then.world_size),
              asked == then.images() ? "" : fmt::format(", {} were asked for", asked), remedy.action)};
}

}  // namespace rollcall::train
