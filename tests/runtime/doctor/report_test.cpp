#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/doctor/report.h"
#include "tests/support/doctor_world.h"

namespace rollcall::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<Checked> some_findings() {
  return {{"answer", {Status::Good, {}, "all 4 ranks on 2 nodes answered", ""}},
          {"own-name", {Status::Notice, {"jwb0001", "jwb0002"}, "unknown", "add it"}},
          {"scratch", {Status::Bad, {"jwb0002"}, "\x1b[2Jred", "make room"}},
          {"scratch", {Status::Bad, {"jwb0001"}, "full", "make room"}},
          {"venv", {Status::Absent, {}, "none is set", ""}}};
}

TEST(DoctorReport, IsATableWithReasonsAndRemedies) {
  JobContext context = healthy_world();
  context.benchmark = {};
  context.seconds = 0.31;
  EXPECT_EQ(report_text(context, some_findings(), {true, false}),
            "rollcall doctor: job 7 step 0, 2 nodes, 4 ranks\n"
            "\n"
            "✔ answer        all 4 ranks on 2 nodes answered\n"
            "! own-name      all 2 nodes: unknown\n"
            "                → add it\n"
            "✘ scratch       jwb0002: ?[2Jred\n"
            "                → make room\n"
            "✘ scratch       jwb0001: full\n"
            "                → make room\n"
            "– venv          none is set\n"
            "\n"
            "1 check failed: see the lines above. (0.3 s)\n");
}

TEST(DoctorReport, IsPlainAsciiWithoutUtf8AndColour) {
  const std::string text = report_text(healthy_world(), some_findings(), {false, false});
  EXPECT_THAT(text, HasSubstr("\nBAD  scratch       jwb0001: full\n                   -> make room\n"));
  EXPECT_THAT(text, HasSubstr("\nok   answer "));
  for (const char c : text) {
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
  }
}

TEST(DoctorReport, IsColouredForATerminalOnly) {
  EXPECT_THAT(report_text(healthy_world(), some_findings(), {true, true}), HasSubstr("\x1b[31m✘\x1b[0m scratch"));
  EXPECT_THAT(report_text(healthy_world(), some_findings(), {true, false}), Not(HasSubstr("\x1b")));
}

TEST(DoctorReport, ListsThreeNodesAndCountsTheRest) {
  JobContext context = healthy_world();
  context.step.num_nodes = 500;
  const Finding many{Status::Bad, {"n1", "n2", "n3", "n4", "n5", "n6"}, "gone", "look"};
  EXPECT_THAT(report_text(context, {{"answer", many}}, {true, false}), HasSubstr("n1, n2, n3 and 3 more: gone"));
}

TEST(DoctorReport, JsonHoldsVerdictStepFindingsAndBenchmark) {
  const nlohmann::json json = nlohmann::json::parse(report_json(healthy_world(), some_findings()));
  EXPECT_EQ(json["verdict"], "bad");
  EXPECT_EQ(json["step"]["job_id"], 7);
  EXPECT_EQ(json["findings"].size(), 5U);
  EXPECT_EQ(json["findings"][1]["status"], "notice");
  EXPECT_EQ(json["findings"][2]["hosts"][0], "jwb0002");
  EXPECT_EQ(json["benchmark"]["rows"][1]["operation"], "all-reduce");
}

TEST(DoctorReport, FailedChecksAreNamedOnce) { EXPECT_THAT(failed_checks(some_findings()), ElementsAre("scratch")); }

}  // namespace
}  // namespace rollcall::doctor
