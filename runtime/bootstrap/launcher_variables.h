#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"

namespace rollcall::bootstrap {

/// The variables by which an MPI launcher tells a process its ranks. Where several names are given, the first that is
/// set counts; an empty name is none.
struct LauncherVariables {
  std::string_view source;    ///< JobFacts::source: "ompi"
  std::string_view launcher;  ///< for messages: "Open MPI's mpirun"
  std::string_view rank;
  std::string_view size;
  std::array<std::string_view, 2> local_rank;
  std::array<std::string_view, 2> local_size;
  std::array<std::string_view, 2> run;  ///< the same text in all ranks of a run, another in the next
};

/// Why the launcher did not start this process, or nothing where it did. Pure.
[[nodiscard]] std::optional<std::string> why_not_launched_by(const LauncherVariables& launcher,
                                                             const Environment& environment);

/// The ranks as the launcher says them. Where it says nothing about local ranks all ranks are taken to be on one node.
/// These launchers do not say which node a process is on: with ranks on several nodes the node rank is a guess from
/// placement by slot, and a warning says so. Hosts stay unknown; `port_salt` is a hash of `run`.
/// Errors (Mismatch): a value is missing, no number or out of range. Pure.
[[nodiscard]] Result<job::JobFacts> facts_from_launcher(const LauncherVariables& launcher,
                                                        const Environment& environment);

}  // namespace rollcall::bootstrap
