#include "runtime/elastic/quorum.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace rollcall::elastic {
namespace {

bool same_node(const Node& one, const Node& other) {
  return one.host == other.host && one.address == other.address && one.port == other.port;
}

bool contains(const std::vector<Node>& nodes, const Node& node) {
  return std::ranges::any_of(nodes, [&](const Node& other) { return same_node(node, other); });
}

/// Whether more than half of `all` are among `here`.
bool is_majority(const std::vector<Node>& all, const std::vector<Node>& here) {
  const auto count = std::ranges::count_if(all, [&](const Node& node) { return contains(here, node); });
  return 2 * static_cast<std::size_t>(count) > all.size();
}

}  // namespace

std::optional<std::uint32_t> place_in(const Generation& generation, const Node& node) {
  const auto found = std::ranges::find_if(generation.world, [&](const Node& other) { return same_node(node, other); });
  return found == generation.world.end() ? std::nullopt
                                         : std::optional(static_cast<std::uint32_t>(found - generation.world.begin()));
}

bool may_succeed(const Generation& last, const std::vector<Node>& here) {
  return is_majority(last.world, here) &&
         std::ranges::all_of(last.unsettled, [&](const Electorate& each) { return is_majority(each.nodes, here); });
}

void Quorum::formed(std::uint32_t generation, const std::vector<Node>& nodes) {
  formed_.push_back({{generation, nodes}, {}});
}

void Quorum::knows(const Node& node, std::uint32_t generation) {
  for (Formed& each : formed_) {
    if (each.electorate.generation <= generation) {
      each.know.insert(key_of(node));
    }
  }
  settle();
}

void Quorum::died(const Node& node) {
  dead_.insert(key_of(node));
  settle();
}

void Quorum::came(const Node& node) { dead_.erase(key_of(node)); }

bool Quorum::known_to_all(const Formed& formed) const {
  return std::ranges::all_of(formed.electorate.nodes, [&](const Node& node) {
    return formed.know.contains(key_of(node)) || dead_.contains(key_of(node));
  });
}

/// Forgets what was before a generation of which all that live know.
void Quorum::settle() {
  const auto newest =
      std::find_if(formed_.rbegin(), formed_.rend(), [&](const Formed& each) { return known_to_all(each); });
  if (newest != formed_.rend()) {
    formed_.erase(formed_.begin(), std::prev(newest.base()));
  }
}

bool Quorum::may_go_on(const std::vector<Node>& here) const {
  const auto silent = [&](const Node& node) { return !contains(here, node) && !dead_.contains(key_of(node)); };
  return !here.empty() && std::ranges::all_of(formed_, [&](const Formed& each) {
    const auto count = std::ranges::count_if(each.electorate.nodes, silent);
    return 2 * static_cast<std::size_t>(count) <= each.electorate.nodes.size();
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
      text += each.know.contains(key_of(node)) ? '+' : '?';
    }
  }
  text += '-';
  for (const Key& key : dead_) {
    text += std::get<0>(key);
  }
  return text;
}

}  // namespace rollcall::elastic
