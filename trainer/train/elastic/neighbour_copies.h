#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/memory_checkpoint.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/world.h"

// Copies of what ranks hold parts of (--replicate-to=neighbour): while a model that is divided among ranks is trained,
// each rank gives its part of it, every so many steps, to a rank of another node. Where ranks are lost, those that are
// left have all parts of a checkpoint of that step together.
namespace rollcall::train {

/// Where a rank is.
struct RankPlace {
  std::string host;
  std::uint32_t local_rank = 0;
};

/// To whom each rank gives its copy, by rank: on another node wherever nodes have equally many ranks. Every rank gets
/// one; a rank by itself is its own neighbour. Pure.
[[nodiscard]] std::vector<std::uint32_t> neighbours(const std::vector<RankPlace>& places);

/// What this process holds: its own part and its neighbour's, of the newest checkpoint whose parts have all arrived
/// and, while another one is under way, of that. One thread at a time.
class NeighbourCopies {
 public:
  /// Gives `content`, this rank's part of the checkpoint `name`, to its neighbour, and keeps it and the one that it
  /// gets. Collective. Errors, the same on all ranks but for a lost peer: Unavailable: a peer was lost, or there is no
  /// memory; InputOutput: a part arrived otherwise than it was sent. What was held before stays then.
  [[nodiscard]] Result<void> exchange(const checkpoint::PartName& name, const checkpoint::format::Content& content,
                                      const RankPlace& place, const process_group::Group& group);
  /// The ranks have gone on from this checkpoint: nobody needs another one.
  void settle_on(const checkpoint::PartName& name);

  [[nodiscard]] bool empty() const { return parts_.empty(); }
  [[nodiscard]] const std::vector<checkpoint::MemoryPart>& parts() const { return parts_; }
  /// Null where it is not held.
  [[nodiscard]] const checkpoint::MemoryPart* find(const checkpoint::PartName& name) const;

 private:
  [[nodiscard]] Result<void> exchange_parts(const checkpoint::PartName& name,
                                            const checkpoint::format::Content& content, const RankPlace& place,
                                            const process_group::Group& group);

  std::vector<checkpoint::MemoryPart> parts_;
  std::optional<checkpoint::PartName> whole_;  ///< owner 0's part of what all ranks are known to have
};

/// A checkpoint that the ranks of a world have all parts of.
struct FoundCopies {
  checkpoint::PartName name;            ///< of owner 0's part
  std::vector<std::uint32_t> holders;   ///< by owner: the rank that has its part
  std::vector<std::uint32_t> crc32c;    ///< by owner, of its part
  std::vector<std::uint32_t> of_table;  ///< by owner, of that part's table
  checkpoint::MemoryCheckpoint checkpoint;
  std::int64_t line_begins_at = -1;  ///< see Checkpoints
  Recovery recovery;                 ///< of the first rank that has lived on
};

/// The value of a copy that says so.
inline constexpr const char* kLineBeginsAt = "/copies/line_begins_at";

/// The newest checkpoint of which every part is there and sound; nothing where there is none. `mine` may be empty.
/// `recovery`: of a rank that has lived on. Collective. Errors (Unavailable): a peer was lost.
[[nodiscard]] Result<std::optional<FoundCopies>> find_copies(const NeighbourCopies& mine, const Recovery& recovery,
                                                             const World& world);

/// Shows all parts to `found.checkpoint`, which was asked for what this rank needs. Collective. Errors: Unavailable: a
/// peer was lost, or a rank has no memory; BadData: this rank was shown something else than what was copied; it has
/// still taken part in all of it.
[[nodiscard]] Result<void> fetch(FoundCopies& found, const NeighbourCopies& mine, const World& world);

}  // namespace rollcall::train
