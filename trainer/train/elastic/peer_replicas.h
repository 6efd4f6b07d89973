#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/memory_checkpoint.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/job_context.h"

// Peer replicas of a sharded training (--replicate-to=neighbour): while a model that is divided among ranks is trained,
// each rank regularly copies its part to a rank of another node. If ranks are lost, the remaining ranks together hold
// all parts of a checkpoint of that step.
namespace rollcall::train {

/// The location of a rank.
struct RankLocation {
  std::string host;
  std::uint32_t local_rank = 0;
};

/// Returns, by rank, the peer that receives its replica: on another node if nodes have equally many ranks. Every rank
/// receives one replica; a rank alone is its own peer. Pure.
[[nodiscard]] std::vector<std::uint32_t> replica_peers(const std::vector<RankLocation>& places);

/// The parts that this process holds: its own and its peer's, of the newest checkpoint whose parts have all arrived,
/// and also of the next one while that is in progress. One thread at a time.
class PeerReplicas {
 public:
  /// Sends `content`, this rank's part of the checkpoint `name`, to its peer; keeps it and the part that it receives.
  /// Collective. Errors, the same on all ranks except for a lost peer: Unavailable: a peer was lost, or there is no
  /// memory; InputOutput: a part was changed on its way. The parts held before stay then.
  [[nodiscard]] Result<void> replicate(const checkpoint::PartName& name, const checkpoint::format::Content& content,
                                       const RankLocation& place, const process_group::Group& group);
  /// Drops all other parts: the ranks have resumed from this checkpoint.
  void keep_only(const checkpoint::PartName& name);

  [[nodiscard]] bool empty() const { return parts_.empty(); }
  [[nodiscard]] const std::vector<checkpoint::MemoryPart>& parts() const { return parts_; }
  /// Returns the part, or null if it is not held.
  [[nodiscard]] const checkpoint::MemoryPart* find(const checkpoint::PartName& name) const;

 private:
  [[nodiscard]] Result<void> replicate_parts(const checkpoint::PartName& name,
                                             const checkpoint::format::Content& content, const RankLocation& place,
                                             const process_group::Group& group);

  std::vector<checkpoint::MemoryPart> parts_;
  /// Name of owner 0's part of the checkpoint that all ranks are known to hold.
  std::optional<checkpoint::PartName> whole_;
};

/// A checkpoint whose parts are all held by ranks of this world.
struct FoundReplicas {
  checkpoint::PartName name;            ///< name of owner 0's part
  std::vector<std::uint32_t> holders;   ///< by owner: the rank that holds its part
  std::vector<std::uint32_t> crc32c;    ///< by owner: checksum of its part
  std::vector<std::uint32_t> of_table;  ///< by owner: checksum of its part's table
  checkpoint::MemoryCheckpoint checkpoint;
  std::int64_t last_own_step = -1;  ///< see CheckpointWriter::set_last_own_step()
  Recovery recovery;                ///< of the first rank that continued from the previous world
};

/// The path of last_own_step in a replica.
inline constexpr const char* kLastOwnStep = "/copies/line_begins_at";

/// Returns the newest checkpoint whose parts are all present and sound; nothing if there is none. `mine` may be empty.
/// `recovery` is of a rank that continued from the previous world. Collective. Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<std::optional<FoundReplicas>> find_replicas(const PeerReplicas& mine, const Recovery& recovery,
                                                                 const JobContext& context);

/// Passes all parts to `found.checkpoint`, which holds the read requests of this rank. Collective. Errors: Unavailable:
/// a peer was lost, or a rank has no memory; BadData: a part was changed on its way to this rank, which still took part
/// in all transfers.
[[nodiscard]] Result<void> fetch_replicas(FoundReplicas& found, const PeerReplicas& mine, const JobContext& context);

}  // namespace rollcall::train
