#include "trainer/train/step_size.h"

#include <fmt/format.h>
#include <torch/torch.h>
#include <algorithm>

#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/distributed/process_group/collectives.h"

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
            fmt::format("--batch-size={} --grad-accumulation={}", *batch_size,
                        *accumulation_for(images, now.world_size, *batch_size))};
  }
  return {"--batch-size", now.batch_size, fmt::format("a number of ranks that divides {}", images)};
}

/// What loading will look at, the newest first.
std::vector<std::string> candidates(const std::string& resume, const std::string& folder) {
  if (resume == "never") {
    return {};
  }
  if (resume != "auto") {
    return {resume};
  }
  std::vector<std::string> paths;
  for (const auto& listed : checkpoint::format::list_checkpoints(folder)) {
    paths.push_back(listed.path);
  }
  return paths;
}

/// Images of a step, over all ranks, of the first that can be read; 0 where there is none.
std::int64_t images_of_step(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const auto reader = checkpoint::format::CheckpointReader::open(path);
    if (!reader) {
      continue;
    }
    auto values = reader->values();
    if (!values) {
      continue;
    }
    if (const auto progress = checkpoint::read_progress({*reader, *std::move(values)})) {
      return progress->world_size * progress->batch_size;
    }
  }
  return 0;
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

StepSizeChange step_size_change(const StepSize& then, const StepSize& now) {
  if (then.world_size == now.world_size && then.images() == now.images()) {
    return {};
  }
  if (then.images() == now.images()) {
    return {.note = fmt::format("a step keeps the {} images that it had with {} (--grad-accumulation={})",
                                then.images(), ranks(then.world_size), now.accumulation),
            .warning = {}};
  }
  const Remedy remedy = remedy_for(then.images(), now);
  return {.note = {},
          .warning = fmt::format("{}: {}: a step has {} images with {}, and had {} with {} in the checkpoint; every "
                                 "image is still seen once an epoch, but steps, and with them the learning rate's "
                                 "schedule, are others; to keep them try {}",
                                 remedy.setting, remedy.value, now.images(), ranks(now.world_size), then.images(),
                                 ranks(then.world_size), remedy.action)};
}

Result<std::optional<std::int64_t>> accumulation_of_checkpoint(const config::TrainConfig& config, const World& world) {
  const checkpoint::LoadOptions& load = config.checkpoint.load;
  const std::int64_t found = world.rank == 0 ? images_of_step(candidates(load.resume, load.folder)) : 0;
  at::Tensor images = world.device.place(torch::tensor({found}, at::kLong));
  if (Result<void> told = process_group::broadcast(world.process_group, images); !told) {
    return told.error();
  }
  return accumulation_for(images.item<std::int64_t>(), world.world_size, config.batch_size());
}

}  // namespace rollcall::train
