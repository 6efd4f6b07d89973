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

/// Somebody who tells a process its ranks by variables. PMIx is the exception: it is asked through a client (pmix.h).
struct Launcher {
  std::string_view source;                                       ///< JobFacts::source
  std::optional<std::string> (*why_not)(const Environment&);     ///< why it declines, or nothing where it answers
  Result<job::JobFacts> (*facts)(const Environment&) = nullptr;  ///< asked only where it answers
};

/// One source of job facts that was asked, in order: who answered, and why the others declined. `rollcall env` and
/// error reports show it.
struct TraceEntry {
  std::string source;  ///< "environment", "pmix", "ompi", "pmi", "slurm", "single"
  bool answered = false;
  std::string detail;  ///< one clause: "rank 3 of 8 on 2 nodes", "PMIX_NAMESPACE is not set"
};

/// Reads numbers from a launcher's variables and remembers the first that is missing or damaged, so that a caller reads
/// all and looks at error() once. Keeps a reference to the environment.
class Numbers {
 public:
  /// `launcher` is named in the errors as who sets the variables: "Slurm".
  Numbers(const Environment& environment, std::string launcher);

  /// The number, or nothing where the variable is unset, empty or (an error) no number.
  [[nodiscard]] std::optional<std::uint32_t> optional(std::string_view name);
  /// The same, where a variable that is not set is an error, too; 0 then.
  [[nodiscard]] std::uint32_t required(std::string_view name);

  /// Exit code Mismatch.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Environment& environment_;
  std::string launcher_;
  std::optional<Error> error_;
};

/// A variable that its launcher set wrongly. Exit code Mismatch.
[[nodiscard]] Error damaged_variable(std::string_view name, const std::string& value, const std::string& reason,
                                     const std::string& launcher);

/// Why `environment` does not say the ranks explicitly, or nothing where the user set RANK and WORLD_SIZE.
[[nodiscard]] std::optional<std::string> why_not_explicit(const Environment& environment);

/// The facts from RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and GROUP_RANK or NODE_RANK, as torchrun sets them;
/// `source` is "environment". Without LOCAL_WORLD_SIZE all ranks are taken to be on one node. Hosts stay unknown:
/// MASTER_ADDR says where rank 0 is. Errors (Mismatch): a value is no number or out of range. Pure.
[[nodiscard]] Result<job::JobFacts> facts_from_environment(const Environment& environment);

/// Why Open MPI's mpirun, or a launcher that speaks PMI-1 or PMI-2 (MPICH's hydra, Intel MPI, Slurm's pmi2 plugin,
/// Cray's PALS), did not start this process; nothing where it did. Pure.
[[nodiscard]] std::optional<std::string> why_not_ompi(const Environment& environment);
[[nodiscard]] std::optional<std::string> why_not_pmi(const Environment& environment);

/// The ranks as these launchers say them. Where one says nothing about local ranks all ranks are taken to be on one
/// node. They do not say which node a process is on: with ranks on several nodes the node rank is a guess from
/// placement by slot, and a warning says so. Hosts stay unknown; `port_salt` is the same in all ranks of a run, another
/// in the next. Errors (Mismatch): a value is missing, no number or out of range. Pure.
[[nodiscard]] Result<job::JobFacts> facts_from_ompi(const Environment& environment);
[[nodiscard]] Result<job::JobFacts> facts_from_pmi(const Environment& environment);

inline constexpr Launcher kExplicit{"environment", why_not_explicit, facts_from_environment};
inline constexpr Launcher kOmpi{"ompi", why_not_ompi, facts_from_ompi};
inline constexpr Launcher kPmi{"pmi", why_not_pmi, facts_from_pmi};
inline constexpr Launcher kSlurm{"slurm", why_not_a_slurm_task, facts_from_slurm};

}  // namespace rollcall::launchers
