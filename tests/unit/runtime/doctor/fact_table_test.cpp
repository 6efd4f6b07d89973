#include "runtime/doctor/fact_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <concepts>
#include <string>
#include <vector>

#include "runtime/doctor/wire/message.h"

namespace rollcall::doctor {

/// Of two members the table knows one.
struct Forgetful {
  int told = 0;
  std::string forgotten;
};

template <>
inline constexpr std::tuple kFacts<Forgetful>{Fact<&Forgetful::told>{"told"}};

namespace {

static_assert(!lists_all_facts<Forgetful>);  // what the wire refuses to compile
static_assert(lists_all_facts<TaskFacts> && lists_all_facts<NodeFacts>);

/// Gives every fact a value of its own, which is not its default, and writes them down one after the other.
class Filling {
 public:
  template <typename Value>
  void fill(Value& value) {
    ++count_;
    if constexpr (HasFacts<Value>) {
      for_each_fact<Value>([&]<auto Place>(const Fact<Place>&) { fill(value.*Place); });
    } else if constexpr (std::same_as<Value, bool>) {
      value = !value;
    } else if constexpr (std::same_as<Value, std::string>) {
      value = "value " + std::to_string(count_);
    } else if constexpr (requires { value.emplace_back(); }) {
      fill(value.emplace_back());
      fill(value.emplace_back());
    } else {
      value = static_cast<Value>(count_);
    }
  }

 private:
  int count_ = 0;
};

template <typename Value>
void expect_same(const Value& sent, const Value& received, const std::string& name) {
  if constexpr (HasFacts<Value>) {
    for_each_fact<Value>([&]<auto Place>(const Fact<Place>& fact) {
      expect_same(sent.*Place, received.*Place, name + "." + std::string(fact.name));
    });
  } else if constexpr (requires { sent.begin(); } && !std::same_as<Value, std::string>) {
    ASSERT_EQ(sent.size(), received.size()) << name;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      expect_same(sent[i], received[i], name);
    }
  } else {
    EXPECT_EQ(sent, received) << name;
  }
}

TEST(DoctorFactTable, EachFactOfARankReachesRank0) {
  TaskFacts sent;
  Filling().fill(sent);
  const Result<TaskFacts> received = task_facts_from_json(to_json_text(sent));
  ASSERT_TRUE(received) << received.error().message();
  expect_same(sent, *received, "task");
}

TEST(DoctorFactTable, AnOlderRanksReportLeavesWhatItDoesNotKnowAsItIs) {
  const Result<TaskFacts> received = task_facts_from_json(R"({"rank": 3, "node": {"cores": 8}, "of a newer one": []})");
  ASSERT_TRUE(received) << received.error().message();
  EXPECT_EQ(received->rank, 3);
  EXPECT_EQ(received->node.cores, 8);
  EXPECT_EQ(received->node.slurm_gpus, 0);
  EXPECT_FALSE(received->first_on_node);
}

}  // namespace
}  // namespace rollcall::doctor
