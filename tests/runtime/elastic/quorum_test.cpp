#include "runtime/elastic/quorum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace rollcall::elastic {
namespace {

constexpr std::size_t kNodes = 7;

Node node(std::size_t i) { return Node{std::string(1, static_cast<char>('a' + i)), "", 1, "default"}; }

using Set = std::uint32_t;  // of nodes, a bit each
bool has(Set set, std::size_t i) { return (set >> i & 1U) != 0; }

std::vector<Node> nodes_of(Set set) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < kNodes; ++i) {
    if (has(set, i)) {
      nodes.push_back(node(i));
    }
  }
  return nodes;
}

/// A coordinator, node 0, and what each node knows, as in coordinator.h and member.h: generations are
/// formed, announced, acknowledged and settled, and nodes die or become silent.
class History {
 public:
  History() : known_(kNodes) {}

  void happen(std::mt19937& random) {
    const std::size_t i = 1 + random() % (kNodes - 1);
    switch (random() % 6) {
      case 0:
        form(static_cast<Set>(random()));
        break;
      case 1:
        tell(i);
        break;
      case 2:
        acknowledge(i);
        break;
      case 3:
        settle(i);
        break;
      case 4:
        here_ &= random() % 2 == 0 ? ~(Set{1} << i) : ~Set{0};
        break;
      default:
        if (random() % 3 == 0 && has(here_, i)) {
          here_ &= ~(Set{1} << i);
          dead_ |= Set{1} << i;
          quorum_.died(node(i));
        }
        break;
    }
  }

  /// Nodes that could continue without the coordinator while it continues without them; or two such sets. Empty:
  /// none.
  [[nodiscard]] std::string violation() const {
    std::vector<Set> successors;
    for (Set set = 2; set < Set{1} << kNodes; set += 2) {
      if ((set & dead_) == 0 && succeeds(set)) {
        successors.push_back(set);
      }
    }
    for (const Set set : successors) {
      if (quorum_.may_continue(nodes_of(here_ & ~set))) {
        return "the coordinator may form another generation beside nodes " + std::to_string(set);
      }
      if ((set & world_) == 0) {
        return "a generation runs on beside nodes " + std::to_string(set);
      }
      if (std::ranges::any_of(successors, [&](Set other) { return (set & other) == 0; })) {
        return "two sets of nodes may go on, one of them " + std::to_string(set);
      }
    }
    return "";
  }

  [[nodiscard]] std::uint32_t generations() const { return newest_.number; }
  [[nodiscard]] bool others_can_continue() const { return succeeds(((Set{1} << kNodes) - 2) & ~dead_); }

 private:
  /// All present nodes have stopped, so they know the previous generation; they and any newcomers form the next.
  void form(Set wanted) {
    for (std::size_t i = 0; i < kNodes; ++i) {
      if (has(here_ & world_, i)) {
        tell(i);
        acknowledge(i);
      }
    }
    if (!quorum_.may_continue(nodes_of(here_))) {
      return;
    }
    world_ = here_ & (wanted | world_ | 1U);
    newest_.number += 1;
    newest_.world = nodes_of(world_);
    quorum_.formed(newest_.number, newest_.world);
    quorum_.knows(node(0), newest_.number);
    newest_.unsettled = quorum_.unsettled();
  }

  void tell(std::size_t i) {
    if (has(here_ & world_, i)) {
      known_[i] = newest_;
    }
  }

  void acknowledge(std::size_t i) {
    if (has(here_, i)) {
      quorum_.knows(node(i), known_[i].number);
    }
  }

  void settle(std::size_t i) {
    if (has(here_, i)) {
      std::erase_if(known_[i].unsettled, [&](const Electorate& each) { return each.generation < quorum_.settled(); });
    }
  }

  [[nodiscard]] bool succeeds(Set set) const {
    const Generation* last = &known_[0];
    for (std::size_t i = 1; i < kNodes; ++i) {
      last = has(set, i) && known_[i].number > last->number ? &known_[i] : last;
    }
    return last->number > 0 && may_succeed(*last, nodes_of(set));
  }

  Quorum quorum_;
  Generation newest_;
  Set here_ = (Set{1} << kNodes) - 1;
  Set world_ = 0;
  Set dead_ = 0;
  std::vector<Generation> known_;  ///< by node; none: number 0
};

TEST(Quorum, NeverLetsTwoPartitionsContinue) {
  std::mt19937 random(7);
  std::size_t grown = 0;
  std::size_t succeeded = 0;
  for (int run = 0; run < 3000; ++run) {
    History history;
    for (int step = 0; step < 40; ++step) {
      history.happen(random);
      ASSERT_EQ(history.violation(), "") << "in run " << run << ", step " << step;
    }
    grown += history.generations() > 3 ? 1U : 0U;
    succeeded += history.others_can_continue() ? 1U : 0U;
  }
  EXPECT_GT(grown, 300U) << "or nothing was tried";
  EXPECT_GT(succeeded, 300U);
}

TEST(Quorum, ForgetsNodesThatLeaveBeforeAGenerationForms) {
  Quorum quorum;
  quorum.formed(1, nodes_of(0b0011));
  const std::string before = quorum.fingerprint();
  quorum.came(node(2));
  quorum.died(node(2));
  EXPECT_EQ(quorum.fingerprint(), before);
}

TEST(Quorum, HalfOfTheNodesContinueOnlyWithTheCoordinator) {
  Generation generation;
  generation.number = 1;
  generation.world = nodes_of(0b1111);
  Quorum quorum;
  quorum.formed(1, generation.world);
  EXPECT_TRUE(quorum.may_continue(nodes_of(0b0011)));
  EXPECT_FALSE(may_succeed(generation, nodes_of(0b1100)));
  EXPECT_FALSE(quorum.may_continue(nodes_of(0b0001)));
  EXPECT_TRUE(may_succeed(generation, nodes_of(0b1110)));
  quorum.died(node(3));
  EXPECT_TRUE(quorum.may_continue(nodes_of(0b0001))) << "the dead go on with nobody";
}

}  // namespace
}  // namespace rollcall::elastic
