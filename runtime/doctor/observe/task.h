#pragma once

#include "runtime/base/environment.h"
#include "runtime/doctor/facts.h"
#include "runtime/job/job_facts.h"
#include "runtime/network/network_view.h"
#include "runtime/resolve/env_patch.h"
#include "runtime/settings/settings.h"

namespace rollcall::doctor {

/// What is known of this task before anything is observed. The references must outlive the call.
struct TaskInputs {
  const job::JobFacts& facts;
  const settings::Settings& settings;
  const Environment& environment;
  const network::NetworkView& network;
  const resolve::EnvPatch* patch;  ///< null: resolve failed
  const Error* resolve_error;      ///< why
};

/// Looks at this rank and, where it is the first of its node, at the node. Nothing here waits longer than a share of
/// `rendezvous.timeout`: what hangs is reported as hanging. Does I/O; changes nothing but a file on SCRATCH that goes
/// at once.
[[nodiscard]] TaskFacts observe_task(const TaskInputs& inputs);

}  // namespace rollcall::doctor
