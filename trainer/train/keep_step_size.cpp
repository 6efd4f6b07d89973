#include "trainer/train/keep_step_size.h"

#include <torch/torch.h>
#include <string>
#include <vector>

#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/progress.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/step_size.h"

namespace rollcall::train {
namespace {

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

Result<void> keep_step_size(settings::Settings& settings, const RunFolders& folders, const World& world) {
  if (!settings.is_default("grad-accumulation")) {
    return {};
  }
  const std::int64_t found =
      world.rank == 0 ? images_of_step(candidates(settings.text("resume"), folders.checkpoints)) : 0;
  at::Tensor images = torch::tensor({found}, at::kLong);
  if (Result<void> told = process_group::broadcast(world.process_group, images); !told) {
    return told;
  }
  const auto accumulation =
      accumulation_for(images.item<std::int64_t>(), world.world_size, settings.integer("batch-size"));
  return accumulation ? settings.set("grad-accumulation", std::to_string(*accumulation), "the checkpoint")
                      : Result<void>();
}

}  // namespace rollcall::train
