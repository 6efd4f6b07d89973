#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"

namespace rollcall::launchers {

/// Facts that a PMIx server has about this process. All supported versions of Slurm's pmix plugin have them. They do
/// not include PMIX_NUM_NODES and node lists, which PMIx 5 servers do not know: nodes come from SLURM_STEP_*.
enum class PmixFact {
  JobSize,    ///< PMIX_JOB_SIZE: the world size
  LocalRank,  ///< PMIX_LOCAL_RANK
  LocalSize,  ///< PMIX_LOCAL_SIZE
  NodeId,     ///< PMIX_NODEID: the node's index in the step (PMIX_NODE_RANK is a rank on the node)
};

/// A connection to the PMIx server of this step. The process is a PMIx client as long as the object lives. If it dies
/// as a client, the server ends the whole step, so destroy the object after the rendezvous. Not thread-safe. All calls
/// return errors as values, with PMIx's text in `reason`.
class PmixClient {
 public:
  PmixClient() = default;
  PmixClient(const PmixClient&) = delete;
  PmixClient& operator=(const PmixClient&) = delete;
  virtual ~PmixClient() = default;

  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  /// Returns the PMIx namespace: "slurm.pmix.JOB.STEP" under srun, a number under mpirun.
  [[nodiscard]] virtual std::string name_space() const = 0;
  [[nodiscard]] virtual Result<std::uint32_t> fact(PmixFact which) = 0;
  /// Returns the server's name for the host of `rank` (PMIX_HOSTNAME): Slurm's node name under srun, whatever the
  /// distribution.
  [[nodiscard]] virtual Result<std::string> host_of(std::uint32_t rank) = 0;

  /// Stores `value` under `key`. All ranks can read it after the next fence().
  [[nodiscard]] virtual Result<void> put(const std::string& key, const std::string& value) = 0;
  /// Commits and exchanges the stored values; a collective call of all ranks of the step. It sets PMIX_COLLECT_DATA,
  /// without which a fence may not be a barrier across nodes. Errors (Unavailable): a rank did not call it within
  /// `limit`. Servers ignore PMIX_TIMEOUT, so this process measures the time, and must not call it again after a
  /// timeout.
  [[nodiscard]] virtual Result<void> fence(std::chrono::duration<double> limit) = 0;
  /// Returns the value that `rank` stored under `key` before the last fence. Waits at most `limit`.
  [[nodiscard]] virtual Result<std::string> get(std::uint32_t rank, const std::string& key,
                                                std::chrono::duration<double> limit) = 0;
};

/// Returns whether rollcall was built with PMIx's headers.
[[nodiscard]] bool has_pmix();

/// Makes this process a PMIx client (PMIx_Init) with libpmix.so.2, which is loaded at run time. A process may have one
/// client at a time; never call it in the SPANK plugin. A later program of this process (exec) that becomes a client
/// itself cannot use the server's shared memory and needs PMIX_MCA_gds=hash (rendezvous/exec_step.h). Errors
/// (Unavailable): built without PMIx's headers, no library, no server.
[[nodiscard]] Result<std::unique_ptr<PmixClient>> open_pmix();

/// Returns the facts from PMIx: rank, sizes, local rank, node rank, this host and rank 0's host; `source` is "pmix".
/// Under mpirun it includes the node list, in the order of the nodes' first ranks. Under Slurm, whose variables have
/// the list, it does not, and num_nodes is only a lower bound: 2 or more where the world does not fit one node.
/// `port_salt`, a hash of the namespace, is equal in all ranks. Errors: (Unavailable) the server does not answer;
/// (Mismatch) its answers contradict each other.
[[nodiscard]] Result<job::JobFacts> facts_from_pmix(PmixClient& client);

/// Returns whether a PMIx namespace belongs to Slurm's own PMIx server ("slurm.pmix.JOB.STEP") and not to mpirun. Pure.
[[nodiscard]] bool is_slurms_namespace(std::string_view name);

}  // namespace rollcall::launchers
