#include <fmt/format.h>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

constexpr const char* kInStep = "srun --ddp or rollcall exec set the environment of this step";

/// "site installation, /opt/rollcall/spank_rollcall.so", or nothing where configuration files do not tell.
std::string installation_text(const Way& way) {
  return way.installation == "none" ? "" : fmt::format(" ({} installation, {})", way.installation, way.plugin);
}

Finding finding_of(const Way& way, bool in_step) {
  if (way.srun_has_option) {
    const std::string here = in_step ? kInStep : "this step was started without it";
    return {Status::Good, {}, fmt::format("srun has --ddp{}; {}", installation_text(way), here), ""};
  }
  if (in_step) {
    return {Status::Good, {}, fmt::format("{}; srun has no --ddp here", kInStep), ""};
  }
  if (!way.srun_exists) {
    return {Status::Absent, {}, "srun does not work here: not a machine of a Slurm cluster, or no configuration", ""};
  }
  return {Status::Notice,
          {},
          "srun has no --ddp: programs get no environment from rollcall by themselves",
          "write srun rollcall exec -- PROGRAM, or run rollcall install --user once"};
}

}  // namespace

Findings check_way(const World& world) {
  const bool in_step = !world.tasks.empty() && world.tasks.front().environment_set;
  Findings findings{finding_of(world.way, in_step)};
  for (const std::string& problem : world.way.problems) {
    findings.push_back({Status::Notice, {}, problem, "run rollcall install --status for the whole state"});
  }
  return findings;
}

}  // namespace rollcall::doctor
