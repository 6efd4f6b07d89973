#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "runtime/job/node_list.h"

namespace rollcall::job {
namespace {

using Counts = std::vector<std::uint32_t>;
using Names = std::vector<std::string>;
using testing::ElementsAreArray;

unsigned below(std::size_t limit, std::mt19937& random) { return static_cast<unsigned>(random() % limit); }

struct NodeListCase {
  const char* text;
  Names names;
};

TEST(NodeList, ExpandsNodeListsOfRealClusters) {
  const std::vector<NodeListCase> cases{
      {"jwb0001", {"jwb0001"}},
      {"jean-zay-ia[810,812-815]",
       {"jean-zay-ia810", "jean-zay-ia812", "jean-zay-ia813", "jean-zay-ia814", "jean-zay-ia815"}},
      {"jwb[0009-0011]", {"jwb0009", "jwb0010", "jwb0011"}},
      {"n[98-101]", {"n98", "n99", "n100", "n101"}},
      {"n[098-101]", {"n098", "n099", "n100", "n101"}},
      {"a,b[1-3]", {"a", "b1", "b2", "b3"}},
      {"c[01-02]x[1-2]", {"c01x1", "c01x2", "c02x1", "c02x2"}},
      {"a,b[1-3],c[01-02]x[1-2]", {"a", "b1", "b2", "b3", "c01x1", "c01x2", "c02x1", "c02x2"}},
      {"gpu-2-[3,5]-ib", {"gpu-2-3-ib", "gpu-2-5-ib"}},
      {"nid[001-002],nid[001-002]", {"nid001", "nid002", "nid001", "nid002"}},
      {"node_1.cluster.example,x", {"node_1.cluster.example", "x"}},
      {"r[1][2-3]", {"r12", "r13"}},
      {"[7-8]", {"7", "8"}},
      {"x[00]", {"x00"}},
  };
  for (const NodeListCase& c : cases) {
    const auto names = expand_node_list(c.text);
    ASSERT_TRUE(names) << c.text << ": " << names.error().message();
    EXPECT_THAT(*names, ElementsAreArray(c.names)) << c.text;
  }
}

TEST(NodeList, RefusesDamagedListsAndShowsThem) {
  for (const char* text : {"",         ",",      "a,",    ",a",    "a,,b",   "a[",     "a[1",
                           "a]1",      "a[]",    "a[1-]", "a[-1]", "a[2-1]", "a[1,]",  "a[x]",
                           "a[1-2-3]", "a[[1]]", "a b",   "a;b",   "a$(id)", "a[1 2]", "a[99999999999999999999]"}) {
    const auto names = expand_node_list(text);
    ASSERT_FALSE(names) << text;
    EXPECT_EQ(names.error().setting, "node list") << text;
    EXPECT_EQ(names.error().value, text);
    EXPECT_EQ(names.error().kind, ErrorKind::Mismatch);
  }
}

TEST(NodeList, ExpansionIsBounded) {
  EXPECT_EQ(expand_node_list("n[1-1000000]")->size(), 1'000'000U);
  for (const char* text : {"n[0-1000000]", "n[0-18446744073709551615]", "n[1-2000]x[1-2000]", "n[1-600000],m[1-600000]",
                           "a[1-999][1-999][1-999][1-999][1-999]"}) {
    EXPECT_FALSE(expand_node_list(text)) << text;
  }
}

TEST(NodeList, RangeMayEndAtTheLargest64BitNumber) {
  EXPECT_THAT(*expand_node_list("n[18446744073709551615]"), ElementsAreArray({"n18446744073709551615"}));
  EXPECT_THAT(*expand_node_list("n[18446744073709551614-18446744073709551615,7]"),
              ElementsAreArray({"n18446744073709551614", "n18446744073709551615", "n7"}));
}

TEST(NodeList, RefusesNamesLongerThanAHostName) {
  const std::string longest(kLongestNodeName - 1, 'n');
  const std::string zeros(kLongestNodeName, '0');
  EXPECT_EQ(expand_node_list(longest + "[1-3]")->size(), 3U);
  EXPECT_EQ(expand_node_list("[" + zeros + "-7]")->size(), 8U);
  for (const std::string& text : {longest + "[9-10]", "[" + zeros + "0-7]", longest + "nn", "x[" + zeros + "-7]"}) {
    const auto names = expand_node_list(text);
    ASSERT_FALSE(names) << text;
    EXPECT_EQ(names.error().reason, "has a name of more than 255 characters");
  }
}

/// Slurm's compression for names of the form prefix + padded number, enough for a round trip.
std::string compress(const std::string& prefix, const std::vector<unsigned>& numbers, int width) {
  std::string inside;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) {
      ++end;
    }
    char text[64];
    std::snprintf(text, sizeof text, end == i ? "%0*u" : "%0*u-%0*u", width, numbers[i], width, numbers[end]);
    inside += (inside.empty() ? "" : ",") + std::string(text);
    i = end + 1;
  }
  return prefix + "[" + inside + "]";
}

TEST(NodeList, ExpandUndoesCompressForRandomSets) {
  std::mt19937 random(20240521);
  const Names prefixes{"n", "jwb", "jean-zay-ia", "rack7-gpu", "a_b"};
  for (int round = 0; round < 500; ++round) {
    const std::string& prefix = prefixes[below(prefixes.size(), random)];
    const int width = 1 + static_cast<int>(below(6, random));
    std::vector<unsigned> numbers;
    for (unsigned number = below(20, random); numbers.size() < 1 + below(60, random);
         number += 1 + (below(3, random) == 0 ? below(90, random) : 0)) {
      numbers.push_back(number);
    }
    Names expected;
    for (const unsigned number : numbers) {
      char text[32];
      std::snprintf(text, sizeof text, "%0*u", width, number);
      expected.push_back(prefix + text);
    }
    const std::string list = compress(prefix, numbers, width);
    const auto names = expand_node_list(list);
    ASSERT_TRUE(names) << list;
    EXPECT_EQ(*names, expected) << list;
  }
}

TEST(NodeList, RandomTextNeverCrashesAndNeverGivesAnEmptyName) {
  std::mt19937 random(7);
  const std::string alphabet = "ab09[],-x";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (unsigned length = below(12, random); length > 0; --length) {
      text += alphabet[below(alphabet.size(), random)];
    }
    if (const auto names = expand_node_list(text)) {
      for (const std::string& name : *names) {
        ASSERT_FALSE(name.empty()) << text;
      }
    }
  }
}

TEST(TasksPerNode, ExpandsSlurmsNotation) {
  EXPECT_EQ(*expand_tasks_per_node("4"), (Counts{4}));
  EXPECT_EQ(*expand_tasks_per_node("2(x3),1"), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(*expand_tasks_per_node("3,1"), (Counts{3, 1}));
  EXPECT_EQ(*expand_tasks_per_node("1,2(x2),1(x1)"), (Counts{1, 2, 2, 1}));
}

TEST(TasksPerNode, RefusesMalformedText) {
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
