#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"

namespace rollcall::launchers {

/// Facts that a PMIx server knows about this process. Slurm's pmix plugin resolves these in every supported version;
/// PMIX_NUM_NODES and node lists are not among them (PMIx 5 servers do not answer): nodes come from SLURM_STEP_*.
enum class PmixFact {
  JobSize,    ///< PMIX_JOB_SIZE: the world size
  LocalRank,  ///< PMIX_LOCAL_RANK
  LocalSize,  ///< PMIX_LOCAL_SIZE
  NodeId,     ///< PMIX_NODEID: the node's index in the step (PMIX_NODE_RANK is something else)
};

/// A connection to the PMIx server of this step; the process is a PMIx client as long as the object lives. A process
/// that dies as a client takes its whole step down, so destroy the object as soon as the ranks have met. Not
/// thread-safe. All calls return errors as values; PMIx's own text is in `reason`.
class PmixClient {
 public:
  PmixClient() = default;
  PmixClient(const PmixClient&) = delete;
  PmixClient& operator=(const PmixClient&) = delete;
  virtual ~PmixClient() = default;

  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  /// The name of the run that the ranks are counted in: "slurm.pmix.JOB.STEP" under srun, a number under mpirun.
  [[nodiscard]] virtual std::string name_space() const = 0;
  [[nodiscard]] virtual Result<std::uint32_t> fact(PmixFact which) = 0;
  /// The host of `rank` as the server names it (PMIX_HOSTNAME): Slurm's node name under srun, whatever the
  /// distribution.
  [[nodiscard]] virtual Result<std::string> host_of(std::uint32_t rank) = 0;

  /// Offers `value` under `key` to all ranks; they can read it after the next fence().
  [[nodiscard]] virtual Result<void> put(const std::string& key, const std::string& value) = 0;
  /// Collective over all ranks of the step: commits what was put and exchanges it (PMIX_COLLECT_DATA always: without it
  /// a fence need not be a barrier across nodes). Errors (Unavailable): a rank did not come within `limit` (servers
  /// ignore PMIX_TIMEOUT, so this process keeps the time; a client whose fence timed out must not fence again).
  [[nodiscard]] virtual Result<void> fence(std::chrono::duration<double> limit) = 0;
  /// What `rank` put under `key` before the last fence; waits for it no longer than `limit`.
  [[nodiscard]] virtual Result<std::string> get(std::uint32_t rank, const std::string& key,
                                                std::chrono::duration<double> limit) = 0;
};

/// Becomes a PMIx client (PMIx_Init) through libpmix.so.2, opened at run time. Call it at most once at a time in a
/// process and never in the SPANK plugin. A program that is started by exec afterwards and becomes a client itself
/// finds nothing in the server's shared memory; it needs PMIX_MCA_gds=hash (rendezvous/exec_step.h). Errors
/// (Unavailable): built without PMIx's headers, no library, no server.
[[nodiscard]] Result<std::unique_ptr<PmixClient>> open_pmix();

/// The facts that PMIx knows: rank, sizes, local rank, node rank, this host and rank 0's; `source` is "pmix". The node
/// list is mpirun's (nodes in the order of their first rank); under Slurm, whose own variables tell it, it stays
/// unknown (a world that does not fit one node has num_nodes 2 or more, as node_rank and sizes tell at least).
/// `port_salt` is the same in all ranks: a hash of the namespace. Errors (Unavailable): the server does not answer;
/// (Mismatch): its answers contradict each other.
[[nodiscard]] Result<job::JobFacts> facts_from_pmix(PmixClient& client);

/// Whether PMIX_NAMESPACE is of Slurm's own PMIx server ("slurm.pmix.JOB.STEP") and not of an mpirun inside. Pure.
[[nodiscard]] bool is_slurms_namespace(std::string_view name);

}  // namespace rollcall::launchers
