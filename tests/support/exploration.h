#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/support/agents_world.h"

// Every order in which messages, crashes, pauses, duplicates, failures and joins can fall among a few agents, with the
// real state machines in it. What docs/developer/elastic.md states is checked in every state that can be reached.

namespace rollcall::elastic {

struct Exploration {
  std::size_t states = 0;
  bool moved = false;          ///< in some state
  std::string violation = {};  ///< with the way to it
};

/// How a state was reached.
struct Origin {
  std::size_t before = 0;  ///< place of the state before it
  std::string event = {};
};

inline std::string way_to(const std::vector<Origin>& origins, std::size_t place) {
  std::string way;
  for (; place != 0; place = origins[place].before) {
    way.insert(0, origins[place].event + ", ");
  }
  return way;
}

/// Depth first, each state once.
inline Exploration explore(const World& start) {
  struct Open {
    World world;
    std::size_t place = 0;
  };
  Exploration result;
  std::unordered_set<std::string> seen{start.fingerprint()};
  std::vector<Origin> origins(1);
  std::vector<Open> open{{start}};
  while (!open.empty()) {
    const Open step = std::move(open.back());
    open.pop_back();
    result.states += 1;
    result.moved |= step.world.moved();
    auto successors = step.world.successors();
    std::string wrong = step.world.violation();
    wrong = wrong.empty() && successors.empty() ? step.world.stuck() : wrong;
    if (!wrong.empty()) {
      result.violation = wrong + " after: " + way_to(origins, step.place);
      return result;
    }
    for (auto& [event, world] : successors) {
      if (seen.insert(world.fingerprint()).second) {
        open.push_back({std::move(world), origins.size()});
        origins.push_back({step.place, std::move(event)});
      }
    }
  }
  return result;
}

}  // namespace rollcall::elastic
