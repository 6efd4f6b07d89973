#include "runtime/job/tasks_per_node.h"

#include <gtest/gtest.h>

#include <random>

namespace rollcall::job {
namespace {

unsigned below(std::size_t limit, std::mt19937& random) { return static_cast<unsigned>(random() % limit); }

using Counts = std::vector<std::uint32_t>;

TEST(TasksPerNode, ExpandsSlurmsNotation) {
  EXPECT_EQ(*expand_tasks_per_node("4"), (Counts{4}));
  EXPECT_EQ(*expand_tasks_per_node("2(x3),1"), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(*expand_tasks_per_node("3,1"), (Counts{3, 1}));
  EXPECT_EQ(*expand_tasks_per_node("1,2(x2),1(x1)"), (Counts{1, 2, 2, 1}));
}

TEST(TasksPerNode, AnythingElseIsAnError) {
  for (const char* text : {"", ",", "2,", "x3", "2(x)", "2(3)", "2(x3", "2x3", "(x3)", "0", "2(x0)", "-1", "2(x3)4",
                           "2 (x3)", "1(x1000001)", "1(x1000000),1", "99999999999"}) {
    const auto counts = expand_tasks_per_node(text);
    ASSERT_FALSE(counts) << text;
    EXPECT_EQ(counts.error().setting, "tasks per node");
  }
}

TEST(TasksPerNode, ExpandUndoesCompressForRandomCounts) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    Counts expected;
    std::string text;
    for (unsigned run = 1 + below(6, random); run > 0; --run) {
      const unsigned tasks = 1 + below(128, random);
      const unsigned nodes = 1 + below(50, random);
      expected.insert(expected.end(), nodes, tasks);
      text +=
          (text.empty() ? "" : ",") + std::to_string(tasks) + (nodes == 1 ? "" : "(x" + std::to_string(nodes) + ")");
    }
    EXPECT_EQ(*expand_tasks_per_node(text), expected) << text;
  }
}

}  // namespace
}  // namespace rollcall::job
