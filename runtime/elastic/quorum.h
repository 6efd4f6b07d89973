#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/elastic/membership.h"

namespace rollcall::elastic {

/// Keeps a run from splitting into two. Knows which nodes could continue without this coordinator, since more than half
/// of a generation's nodes may, and whether the coordinator may continue without the nodes that it does not hear from.
///
/// Until all nodes of a generation have acknowledged it, the remaining ones could still continue from the previous
/// generation: both generations have a vote then, as in a membership change by joint consensus (Ongaro and Ousterhout,
/// "In Search of an Understandable Consensus Algorithm", 2014, section 6). docs/developer/elastic.md has the proof
/// idea.
class Quorum {
 public:
  /// Adds a generation newer than all earlier ones.
  void formed(std::uint32_t generation, const std::vector<Node>& nodes);
  /// Records that the node has acknowledged the generation, and so all earlier ones.
  void knows(const Node& node, std::uint32_t generation);
  /// Records that the node's agent has ended and so cannot continue anywhere.
  void died(const Node& node);
  /// Records that the node is present, whatever was recorded for its address and port.
  void came(const Node& node);

  /// Returns whether the nodes outside `here` that may live are at most half of every generation with a vote. False for
  /// an empty `here`.
  [[nodiscard]] bool may_continue(const std::vector<Node>& here) const;
  /// Returns the earlier generations that still have a vote, oldest first.
  [[nodiscard]] std::vector<Electorate> unsettled() const;
  /// Returns the oldest generation with a vote; 0: none was formed.
  [[nodiscard]] std::uint32_t settled() const;
  /// Returns whether all live nodes of the newest generation have acknowledged it.
  [[nodiscard]] bool confirmed() const { return !formed_.empty() && known_to_all(formed_.back()); }
  /// Returns the whole state as a text. For tests.
  [[nodiscard]] std::string fingerprint() const;

 private:
  using Key = std::tuple<std::string, std::string, std::uint16_t>;
  struct Formed {
    Electorate electorate;
    std::set<Key> unaware;  ///< nodes that have not acknowledged it
  };
  [[nodiscard]] bool known_to_all(const Formed& formed) const;
  void settle();

  std::vector<Formed> formed_;  ///< oldest first
  std::set<Key> dead_;
};

/// Returns whether `nodes`, which lost the coordinator of `last`, are more than half of it and of every other
/// generation that has a vote. Pure.
[[nodiscard]] bool may_succeed(const Generation& last, const std::vector<Node>& nodes);

/// Returns how many of the generation's nodes are among `nodes`. Pure.
[[nodiscard]] std::size_t count_in(const Generation& generation, const std::vector<Node>& nodes);

/// Returns the group rank of the node in the generation; unset where it has none. Host, address and port identify a
/// node.
[[nodiscard]] std::optional<std::uint32_t> group_rank_in(const Generation& generation, const Node& node);

}  // namespace rollcall::elastic
