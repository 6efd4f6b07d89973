#include "runtime/resolve/rendezvous_port.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/support/resolve_step.h"

namespace rollcall::resolve {
namespace {

constexpr network::PortRange kEphemeral{32768, 60999};  // Linux's default

job::JobFacts typical() {
  job::JobFacts facts;
  facts.job_id = 4711;
  return facts;
}

Result<PortChoice> choose(const job::JobFacts& facts) {
  return choose_rendezvous_port(facts, {20000, 29999}, kEphemeral);
}

TEST(RendezvousPort, UsersValueWinsOverEverything) {
  Step step;
  step.user.set("MASTER_PORT", "12345");
  step.facts.reserved_ports = "17500-17503";
  EXPECT_EQ(step.after().get("MASTER_PORT"), "12345");
}

TEST(RendezvousPort, TakesTheFirstPortThatSlurmReserved) {
  for (const char* list : {"17500-17503", "17500", "17500,17502"}) {
    job::JobFacts facts = typical();
    facts.reserved_ports = list;
    EXPECT_EQ(choose(facts)->port, 17500) << list;
  }
}

TEST(RendezvousPort, EachWorldOfAStepHasAPortOfItsOwn) {
  job::JobFacts facts = typical();
  const std::uint16_t hashed = choose(facts)->port;
  facts.world_index = 1;
  EXPECT_NE(choose(facts)->port, hashed);
  facts.reserved_ports = "17500-17501,17600";
  std::vector<std::uint16_t> ports;
  for (facts.world_index = 0; facts.world_index < 4; ++facts.world_index) {
    ports.push_back(choose(facts)->port);
  }
  EXPECT_EQ(ports, (std::vector<std::uint16_t>{17500, 17501, 17600, 17500}));
}

TEST(RendezvousPort, MalformedReservationIsAnErrorThatNamesTheVariable) {
  for (const char* list : {"abc", "0-3", "17500x", "99999", ",", "5-4"}) {
    job::JobFacts facts = typical();
    facts.reserved_ports = list;
    const auto choice = choose(facts);
    ASSERT_FALSE(choice) << list;
    EXPECT_EQ(choice.error().setting, "SLURM_STEP_RESV_PORTS");
  }
}

TEST(RendezvousPort, RangeInsideTheEphemeralPortsIsRefused) {
  EXPECT_FALSE(choose_rendezvous_port(typical(), {60000, 61000}, kEphemeral));
}

// Ten thousand concurrent steps of one job into ten thousand ports: a good hash fills 1 - 1/e = 63 % of them.
TEST(RendezvousPort, StepsSpreadEvenlyAndStayInRange) {
  std::set<std::uint16_t> seen;
  for (std::uint32_t step = 0; step < 10'000; ++step) {
    job::JobFacts facts = typical();
    facts.step_id = step;
    const std::uint16_t port = choose(facts)->port;
    seen.insert(port);
    facts.world_index = 3;
    for (const std::uint16_t one : {port, choose(facts)->port}) {
      ASSERT_GE(one, 20000);
      ASSERT_LE(one, 29999);
    }
  }
  EXPECT_NEAR(static_cast<double>(seen.size()), 6321.0, 150.0);
}

}  // namespace
}  // namespace rollcall::resolve
