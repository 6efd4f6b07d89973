#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/launchers/slurm.h"

namespace rollcall::launchers {

/// A launcher that passes ranks to its processes in environment variables. PMIx is not one: see pmix.h.
struct Launcher {
  std::string_view source;                                       ///< JobFacts::source
  std::optional<std::string> (*why_not)(const Environment&);     ///< why it did not start this process; or nothing
  Result<job::JobFacts> (*facts)(const Environment&) = nullptr;  ///< called only where why_not() returns nothing
};

/// The answer of one source of job facts. `rollcall env` and error reports show these in the order of asking.
struct TraceEntry {
  std::string source;     ///< "environment", "pmix", "ompi", "pmi", "slurm", "single"
  bool answered = false;  ///< whether it has facts about this process
  std::string detail;     ///< one clause: "rank 3 of 8 on 2 nodes", "PMIX_NAMESPACE is not set"
};

/// Reads numbers from a launcher's variables and keeps the first error, so that a caller can read all of them and check
/// error() once. Keeps a reference to the environment.
class Numbers {
 public:
  /// The errors name `launcher` as the program that sets the variables: "Slurm".
  Numbers(const Environment& environment, std::string launcher);

  /// Returns the number, or nothing where the variable is unset or empty. A value that is not a number is an error.
  [[nodiscard]] std::optional<std::uint32_t> optional(std::string_view name);
  /// Returns the number. An unset variable is an error too, for which it returns 0.
  [[nodiscard]] std::uint32_t required(std::string_view name);

  /// Returns the first error (Mismatch), if any.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Environment& environment_;
  std::string launcher_;
  std::optional<Error> error_;
};

/// Returns the error (Mismatch) for a variable that its launcher set to an invalid value.
[[nodiscard]] Error damaged_variable(std::string_view name, const std::string& value, const std::string& reason,
                                     const std::string& launcher);

/// Returns why `environment` has no explicit ranks, or nothing where the user set RANK and WORLD_SIZE.
[[nodiscard]] std::optional<std::string> why_not_explicit(const Environment& environment);

/// Returns the facts from RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and GROUP_RANK or NODE_RANK, which torchrun
/// sets; `source` is "environment". Without LOCAL_WORLD_SIZE all ranks are assumed to be on one node. Hosts are
/// unknown: MASTER_ADDR names rank 0's. Errors (Mismatch): a value is not a number or is out of range. Pure.
[[nodiscard]] Result<job::JobFacts> facts_from_environment(const Environment& environment);

/// These return why a launcher did not start this process, or nothing where it did: Open MPI's mpirun, and launchers
/// with PMI-1 or PMI-2 (MPICH's hydra, Intel MPI, Slurm's pmi2 plugin, Cray's PALS). Pure.
[[nodiscard]] std::optional<std::string> why_not_ompi(const Environment& environment);
[[nodiscard]] std::optional<std::string> why_not_pmi(const Environment& environment);

/// These return the facts from the variables of these launchers. Without local ranks, all ranks are assumed to be on
/// one node. The launchers do not say which node a process is on, so that with several nodes the node rank is a guess
/// from placement by slot, with a warning. Hosts are unknown. `port_salt` is equal in all ranks of a run and differs
/// between runs. Errors (Mismatch): a value is missing, not a number, or out of range. Pure.
[[nodiscard]] Result<job::JobFacts> facts_from_ompi(const Environment& environment);
[[nodiscard]] Result<job::JobFacts> facts_from_pmi(const Environment& environment);

inline constexpr Launcher kExplicit{"environment", why_not_explicit, facts_from_environment};
inline constexpr Launcher kOmpi{"ompi", why_not_ompi, facts_from_ompi};
inline constexpr Launcher kPmi{"pmi", why_not_pmi, facts_from_pmi};
inline constexpr Launcher kSlurm{"slurm", why_not_a_slurm_task, facts_from_slurm};

}  // namespace rollcall::launchers
