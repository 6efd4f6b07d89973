#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {

Findings check_way(const World& world) {
  const bool in_step = !world.tasks.empty() && world.tasks.front().environment_set;
  const std::string here = in_step ? "srun --ddp or rollcall exec set the environment of this step" : "";
  if (world.way.srun_has_option) {
    return {{Status::Good, {}, here.empty() ? "srun has --ddp; this step was started without it" : here, ""}};
  }
  if (in_step) {
    return {{Status::Good, {}, here + "; srun has no --ddp here", ""}};
  }
  if (!world.way.srun_exists) {
    return {{Status::Absent, {}, "srun does not work here: not a machine of a Slurm cluster, or no configuration", ""}};
  }
  return {{Status::Notice,
           {},
           "srun has no --ddp: programs get no environment from rollcall by themselves",
           "write srun rollcall exec -- PROGRAM, or ask the site for the plugin (docs/plugin.md)"}};
}

}  // namespace rollcall::doctor
