#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::bootstrap {

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
  [[nodiscard]] virtual Result<std::uint32_t> fact(PmixFact which) = 0;

  /// Offers `value` under `key` to all ranks; they can read it after the next fence().
  [[nodiscard]] virtual Result<void> put(const std::string& key, const std::string& value) = 0;
  /// Collective over all ranks of the step: commits what was put and exchanges it (PMIX_COLLECT_DATA always: without it
  /// a fence need not be a barrier across nodes).
  [[nodiscard]] virtual Result<void> fence() = 0;
  /// What `rank` put under `key` before the last fence.
  [[nodiscard]] virtual Result<std::string> get(std::uint32_t rank, const std::string& key) = 0;
};

/// Becomes a PMIx client (PMIx_Init) through libpmix.so.2, opened at run time. Call it at most once at a time in a
/// process, never in the SPANK plugin and never before an exec: a process has one client slot. Errors (Unavailable):
/// built without PMIx's headers, no library, no server.
[[nodiscard]] Result<std::unique_ptr<PmixClient>> open_pmix();

}  // namespace rollcall::bootstrap
