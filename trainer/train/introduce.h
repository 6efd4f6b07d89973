#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/settings/settings.h"
#include "trainer/train/observer.h"
#include "trainer/train/task.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// Says what is about to be trained, on what, by whom, how often Slurm restarted it, then `notes` (those that are not
/// empty) and `warnings`.
void introduce(Observer& observer, const settings::Settings& settings, const Environment& environment,
               const World& world, const Task& task, const std::vector<std::string>& notes,
               const std::vector<std::string>& warnings);

}  // namespace rollcall::train
