#include "runtime/elastic/quorum.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace rollcall::elastic {
namespace {

bool same_node(const Node& one, const Node& other) {
  return one.host == other.host && one.address == other.address && one.port == other.port;
}

using Key = std::tuple<std::string, std::string, std::uint16_t>;

Key key_of(const Node& node) { return {node.host, node.address, node.port}; }

std::set<Key> keys_of(const std::vector<Node>& nodes) {
  std::set<Key> keys;
  for (const Node& node : nodes) {
    keys.insert(key_of(node));
  }
  return keys;
}

std::size_t count_in(const std::vector<Node>& nodes, const std::set<Key>& keys) {
  const auto count = std::ranges::count_if(nodes, [&](const Node& node) { return keys.contains(key_of(node)); });
  return static_cast<std::size_t>(count);
}

/// Returns whether more than half of `all` are among `here`.
bool is_majority(const std::vector<Node>& all, const std::set<Key>& here) {
  return 2 * count_in(all, here) > all.size();
}

}  // namespace

std::optional<std::uint32_t> group_rank_in(const Generation& generation, const Node& node) {
  const auto found = std::ranges::find_if(generation.world, [&](const Node& other) { return same_node(node, other); });
  return found == generation.world.end() ? std::nullopt
                                         : std::optional(static_cast<std::uint32_t>(found - generation.world.begin()));
}

std::size_t count_in(const Generation& generation, const std::vector<Node>& nodes) {
  return count_in(generation.world, keys_of(nodes));
}

bool may_succeed(const Generation& last, const std::vector<Node>& nodes) {
  const std::set<Key> here = keys_of(nodes);
  return is_majority(last.world, here) &&
         std::ranges::all_of(last.unsettled, [&](const Electorate& each) { return is_majority(each.nodes, here); });
}

void Quorum::formed(std::uint32_t generation, const std::vector<Node>& nodes) {
  formed_.push_back({{generation, nodes}, keys_of(nodes)});
}

void Quorum::knows(const Node& node, std::uint32_t generation) {
  bool news = false;
  for (Formed& each : formed_) {
    news |= each.electorate.generation <= generation && each.unaware.erase(key_of(node)) > 0;
  }
  if (news) {  // each heartbeat repeats it
    settle();
  }
}

void Quorum::died(const Node& node) {
  const Key key = key_of(node);
  const bool counts = std::ranges::any_of(formed_, [&](const Formed& each) {
    return std::ranges::any_of(each.electorate.nodes.list(),
                               [&](const Node& one) { return one.port == node.port && key_of(one) == key; });
  });
  if (counts) {  // nodes that were never in a generation are not kept
    dead_.insert(key);
    settle();
  }
}

void Quorum::came(const Node& node) { dead_.erase(key_of(node)); }

bool Quorum::known_to_all(const Formed& formed) const {
  return formed.unaware.size() <= dead_.size() &&
         std::ranges::all_of(formed.unaware, [&](const Key& key) { return dead_.contains(key); });
}

/// Forgets all generations before the newest one that all live nodes have acknowledged.
void Quorum::settle() {
  const auto newest =
      std::find_if(formed_.rbegin(), formed_.rend(), [&](const Formed& each) { return known_to_all(each); });
  if (newest != formed_.rend()) {
    formed_.erase(formed_.begin(), std::prev(newest.base()));
  }
}

bool Quorum::may_continue(const std::vector<Node>& here) const {
  std::set<Key> heard = keys_of(here);
  heard.insert(dead_.begin(), dead_.end());
  return !here.empty() && std::ranges::all_of(formed_, [&](const Formed& each) {
    const std::vector<Node>& all = each.electorate.nodes;
    const std::size_t silent = all.size() - count_in(all, heard);
    return 2 * silent <= all.size();
  });
}

std::vector<Electorate> Quorum::unsettled() const {
  std::vector<Electorate> earlier;
  for (std::size_t i = 0; i + 1 < formed_.size(); ++i) {
    earlier.push_back(formed_[i].electorate);
  }
  return earlier;
}

std::uint32_t Quorum::settled() const { return formed_.empty() ? 0 : formed_.front().electorate.generation; }

std::string Quorum::fingerprint() const {
  std::string text;
  for (const Formed& each : formed_) {
    fmt::format_to(std::back_inserter(text), "q{}:", each.electorate.generation);
    for (const Node& node : each.electorate.nodes) {
      text += node.host;
      text += each.unaware.contains(key_of(node)) ? '?' : '+';
    }
  }
  text += '-';
  for (const Key& key : dead_) {
    text += std::get<0>(key);
  }
  return text;
}

}  // namespace rollcall::elastic
