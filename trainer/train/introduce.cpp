#include "trainer/train/introduce.h"

#include <fmt/format.h>

#include "runtime/contract/env_vars.h"

namespace rollcall::train {

void introduce(Observer& observer, const settings::Settings& settings, const Environment& environment,
               const World& world, const Task& task, const std::vector<std::string>& notes,
               const std::vector<std::string>& warnings) {
  observer.note(fmt::format("{} on {}: {} training and {} validation images, {} classes", settings.text("model"),
                            settings.text("data"), task.data.datasets.train->size(), task.data.datasets.valid->size(),
                            task.data.datasets.class_names.size()));
  observer.note(fmt::format("{} ranks on {} nodes, {} images a step, {} steps an epoch, back end {}, rendezvous {}",
                            world.world_size, world.num_nodes,
                            world.world_size * task.grad_accumulation * settings.integer("batch-size"),
                            task.data.train_sampler->steps(), world.backend, world.rendezvous));
  if (const auto times = environment.get_non_empty(env::kSlurmRestartCount)) {
    observer.note(
        fmt::format("Slurm job {}, restart count {}", environment.get(env::kSlurmJobId).value_or("?"), *times));
  }
  for (const std::string& note : notes) {
    if (!note.empty()) {
      observer.note(note);
    }
  }
  for (const std::string& warning : warnings) {
    observer.warn(warning);
  }
}

}  // namespace rollcall::train
