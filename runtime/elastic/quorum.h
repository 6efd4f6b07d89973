#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/elastic/membership.h"

namespace rollcall::elastic {

/// Keeps a run from becoming two: which nodes could go on without this coordinator, since more than half of a
/// generation's nodes may, and whether it may itself go on without those that it does not hear.
///
/// Until all nodes of a generation have heard of it, those that have not could still go on from the one before: both
/// have a say then, as in a change of members by joint consensus (Ongaro and Ousterhout, "In Search of an
/// Understandable Consensus Algorithm", 2014, section 6). docs/developer/elastic.md has the argument. Not thread-safe.
class Quorum {
 public:
  /// A newer generation than all before.
  void formed(std::uint32_t generation, const std::vector<Node>& nodes);
  /// The node has heard of the generation, and of all before.
  void knows(const Node& node, std::uint32_t generation);
  /// Its agent has ended: it goes on with nobody.
  void died(const Node& node);
  /// It is there, whatever was known of one with its address and port.
  void came(const Node& node);

  /// Whether `here` and the dead leave no more than half of any generation that has a say. Empty `here`: never.
  [[nodiscard]] bool may_go_on(const std::vector<Node>& here) const;
  /// Those before the newest that still have a say, the oldest first.
  [[nodiscard]] std::vector<Electorate> unsettled() const;
  /// The oldest that has a say; 0: none was formed.
  [[nodiscard]] std::uint32_t settled() const;
  /// All nodes of the newest generation that live have heard of it.
  [[nodiscard]] bool confirmed() const { return !formed_.empty() && known_to_all(formed_.back()); }
  /// All that decides, as a text. For tests.
  [[nodiscard]] std::string fingerprint() const;

 private:
  using Key = std::tuple<std::string, std::string, std::uint16_t>;
  struct Formed {
    Electorate electorate;
    std::set<Key> unaware;  ///< of its nodes, those that have not said that they know of it
  };
  [[nodiscard]] bool known_to_all(const Formed& formed) const;
  void settle();

  std::vector<Formed> formed_;  ///< the oldest first
  std::set<Key> dead_;
};

/// Whether `nodes`, which lost the coordinator of `last`, are more than half of it and of each generation that has
/// a say besides. Pure.
[[nodiscard]] bool may_succeed(const Generation& last, const std::vector<Node>& nodes);

/// How many of the generation's nodes are among `nodes`. Pure.
[[nodiscard]] std::size_t count_in(const Generation& generation, const std::vector<Node>& nodes);

/// The place of the node in the generation; nothing where it has none. A node is known by host, address and port.
[[nodiscard]] std::optional<std::uint32_t> place_in(const Generation& generation, const Node& node);

}  // namespace rollcall::elastic
