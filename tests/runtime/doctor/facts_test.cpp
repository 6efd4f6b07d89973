#include "runtime/doctor/facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/doctor/wire/message.h"
#include "tests/support/doctor_world.h"

namespace rollcall::doctor {
namespace {

using Json = nlohmann::json;

/// Gives every string, number and boolean a different value.
void change(Json& json, int& count) {
  if (json.is_structured()) {
    ASSERT_FALSE(json.empty()) << "holds nothing that could be lost on the way";
    for (Json& part : json) {
      change(part, count);
    }
  } else if (json.is_boolean()) {
    json = !json.get<bool>();
  } else if (json.is_string()) {
    json = "value " + std::to_string(++count);
  } else {
    json = ++count;
  }
}

TEST(DoctorFacts, EveryFieldIsUnchangedAfterSerialiseAndParse) {
  TaskFacts facts = healthy_world().tasks[0];
  facts.warnings = {"of something"};
  facts.ring_addresses = {"10.0.0.1"};
  facts.head.silent_addresses = {"fd00::1"};
  Json sent = Json::parse(to_json_text(facts));
  int count = 0;
  change(sent, count);
  EXPECT_GT(count, 60);
  const Result<TaskFacts> received = task_facts_from_json(sent.dump());
  ASSERT_TRUE(received) << received.error().message();
  EXPECT_EQ(Json::parse(to_json_text(*received)), sent);
}

TEST(DoctorFacts, UnknownFieldsAreIgnoredAndMissingOnesKeepDefaults) {
  const Result<TaskFacts> received = task_facts_from_json(R"({"rank": 3, "node": {"cores": 8}, "of a newer one": []})");
  ASSERT_TRUE(received) << received.error().message();
  EXPECT_EQ(received->rank, 3);
  EXPECT_EQ(received->node.cores, 8);
  EXPECT_EQ(received->node.slurm_gpus, 0);
  EXPECT_FALSE(received->first_on_node);
}

}  // namespace
}  // namespace rollcall::doctor
