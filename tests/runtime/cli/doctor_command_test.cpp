#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/cli/command.h"
#include "runtime/cli/program.h"
#include "runtime/doctor/checks/check.h"

namespace rollcall::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct DoctorOutcome {
  int code = 0;
  std::string out;
  std::string err;
};

DoctorOutcome doctor(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "doctor");
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_program(arguments, Environment(), out, err);
  return {code, out.str(), err.str()};
}

TEST(DoctorCommand, ListsEveryCheckAndOffersThemAsChoices) {
  const DoctorOutcome listed = doctor({"--list"});
  std::string all = "all";
  std::string none = "none";
  for (const doctor::Check& check : doctor::kChecks) {
    EXPECT_THAT(listed.out, HasSubstr(std::string(check.name) + " "));
    all += "|" + std::string(check.name);
    none += "|" + std::string(check.name);
  }
  EXPECT_EQ(settings::find_setting(doctor_table(), "only")->choices, all);
  EXPECT_EQ(settings::find_setting(doctor_table(), "skip")->choices, none);
}

TEST(DoctorCommand, SuggestsTheNearestNameForUnknownChecksAndBackends) {
  EXPECT_EQ(doctor({"--only=clok"}).err, "rollcall: --only: clok: is not a check; try --only=clock\n");
  EXPECT_EQ(doctor({"--skip=clock,rign"}).err, "rollcall: --skip: rign: is not a check; try --skip=ring\n");
  EXPECT_EQ(doctor({"--only=clock", "--skip=clock"}).code, 64);
  EXPECT_EQ(doctor({"--collectives=gloo,uxc"}).err,
            "rollcall: --collectives: uxc: is not a backend; try --collectives=ucx\n");
  EXPECT_EQ(doctor({"--collectives=foo"}).code, 64);
  EXPECT_THAT(doctor({"now"}).err, StartsWith("rollcall: doctor: now: is one argument too many"));
}

TEST(DoctorCommand, RunsOnOneMachineWithoutALauncher) {
  const DoctorOutcome outcome = doctor({"--only=clock,versions", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["step"]["world_size"], 1);
  ASSERT_EQ(json["findings"].size(), 2U);
  EXPECT_EQ(json["findings"][0]["status"], "absent");
  EXPECT_THAT(json["findings"][1]["reason"].get<std::string>(), HasSubstr("glibc "));
}

}  // namespace
}  // namespace rollcall::cli
