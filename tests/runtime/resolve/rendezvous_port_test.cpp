#include "runtime/resolve/master_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/resolve_step.h"

namespace rollcall::resolve {
namespace {

job::JobFacts typical_facts() {
  job::JobFacts facts;
  facts.job_id = 4711;
  return facts;
}

Result<PortChoice> choose(const job::JobFacts& facts) { return choose_rendezvous_port(facts, {20000, 29999}); }

TEST(RendezvousPort, UsersMasterPortHasPrecedence) {
  Step step;
  step.user.set("MASTER_PORT", "12345");
  step.facts.reserved_ports = "17500-17503";
  EXPECT_EQ(step.after().get("MASTER_PORT"), "12345");
  step.facts.reserved_ports = "no list";
  EXPECT_EQ(step.after().get("MASTER_PORT"), "12345");
  EXPECT_THAT(step.run()->warnings, testing::IsEmpty());
}

TEST(RendezvousPort, TakesTheFirstPortThatSlurmReserved) {
  for (const char* list : {"17500-17503", "17500", "17500,17502"}) {
    job::JobFacts facts = typical_facts();
    facts.reserved_ports = list;
    EXPECT_EQ(choose(facts)->port, 17500) << list;
  }
}

TEST(RendezvousPort, WorldsOfAStepUseDifferentPorts) {
  job::JobFacts facts = typical_facts();
  const std::uint16_t whole = choose(facts)->port;
  facts.world_index = 1;
  EXPECT_NE(choose(facts)->port, whole);
  facts.reserved_ports = "17500-17501,17600";
  std::vector<std::uint16_t> ports;
  for (facts.world_index = 0; facts.world_index < 4; ++facts.world_index) {
    ports.push_back(choose(facts)->port);
  }
  EXPECT_EQ(ports, (std::vector<std::uint16_t>{17500, 17501, 17600, 17500}));
}

TEST(RendezvousPort, AllWorldsOfAStepStayInTheRange) {
  job::JobFacts facts = typical_facts();
  for (facts.world_index = 0; facts.world_index < 8; ++facts.world_index) {
    const std::uint16_t port = choose_rendezvous_port(facts, {20000, 20002})->port;
    EXPECT_THAT(port, testing::AllOf(testing::Ge(20000), testing::Le(20002))) << facts.world_index;
  }
}

TEST(RendezvousPort, MalformedReservationIsAnErrorThatNamesTheVariable) {
  for (const char* list : {"abc", "0-3", "17500x", "99999", ",", "5-4"}) {
    job::JobFacts facts = typical_facts();
    facts.reserved_ports = list;
    const auto choice = choose(facts);
    ASSERT_FALSE(choice) << list;
    EXPECT_EQ(choice.error().setting, "SLURM_STEP_RESV_PORTS");
  }
}

std::vector<std::string> warnings_of(const Step& step) {
  const auto patch = step.run();
  EXPECT_TRUE(patch) << patch.error().message();
  return patch->warnings;
}

TEST(RendezvousPort, EphemeralPortIsUsedWithAWarningOnTheHostOfRank0) {
  Step step;
  step.facts.rank = step.facts.node_rank = step.facts.local_rank = 0;
  step.set("port.range", "40000-40099");
  ASSERT_EQ(warnings_of(step).size(), 1U);
  EXPECT_THAT(warnings_of(step)[0], testing::StartsWith("MASTER_PORT: 400"));
  EXPECT_THAT(warnings_of(step)[0], testing::HasSubstr("the ephemeral ports 32768-60999"));
  EXPECT_THAT(warnings_of(step)[0], testing::HasSubstr("ip_local_reserved_ports=40000-40099"));
  const auto port = step.after().get("MASTER_PORT");
  step.network.ephemeral_ports = {.range = {1024, 65535}};
  EXPECT_EQ(warnings_of(step).size(), 1U) << "a site where no range is outside of them";
  step.network.ephemeral_ports.reserved = {{80, 80}, {40000, 40099}};
  EXPECT_TRUE(warnings_of(step).empty());
  EXPECT_EQ(step.after().get("MASTER_PORT"), port) << "the same on nodes whose kernels are set otherwise";
  step.network.ephemeral_ports.reserved = {{80, 80}};
  step.facts.reserved_ports = "40000-40003";
  EXPECT_TRUE(warnings_of(step).empty()) << "Slurm's own range is the administrator's affair";
  step.facts.reserved_ports = "";
  step.facts.rank = 1;
  EXPECT_TRUE(warnings_of(step).empty()) << "nothing listens there";
}

/// The ports of `jobs` consecutive jobs of `steps` steps each in a range of `size` ports, all of them in it.
std::set<std::uint16_t> ports_of(std::uint32_t first_job, std::uint32_t jobs, std::uint32_t steps, std::uint32_t size) {
  const auto last = static_cast<std::uint16_t>(20000 + size - 1);
  std::set<std::uint16_t> ports;
  for (std::uint32_t i = 0; i < jobs * steps; ++i) {
    job::JobFacts facts;
    facts.job_id = first_job + i / steps;
    facts.step_id = i % steps;
    const std::uint16_t port = choose_rendezvous_port(facts, {20000, last})->port;
    EXPECT_TRUE(port >= 20000 && port <= last) << port;
    ports.insert(port);
  }
  return ports;
}

TEST(RendezvousPort, StepsOfAJobAndConsecutiveJobsUseDifferentPorts) {
  for (const std::uint32_t size : {1U, 2U, 3U, 4U, 10U, 100U, 256U, 1000U, 9973U, 10000U, 12768U}) {
    for (const std::uint32_t first_job : {1U, 4711U, 0xfffffff0U - 12768}) {
      EXPECT_EQ(ports_of(first_job, 1, size, size).size(), size) << first_job;
      EXPECT_EQ(ports_of(first_job, size / 3, 1, size).size(), size / 3) << first_job;
    }
  }
}

TEST(RendezvousPort, ConcurrentStepsOfConsecutiveJobsUseDifferentPorts) {
  EXPECT_EQ(ports_of(4711, 8, 5, 10000).size(), 40U);
  EXPECT_EQ(ports_of(815, 10, 20, 10000).size(), 200U);
  EXPECT_EQ(ports_of(1, 64, 50, 10000).size(), 3200U);
  EXPECT_EQ(ports_of(77, 5, 16, 256).size(), 80U);
}

// Jobs of a shared node: any ids, a step each. Chance gives 37 of 40 in a range of 256 ports.
TEST(RendezvousPort, PortsOfArbitraryJobIdsCollideNoMoreThanRandomPorts) {
  std::uint32_t id = 12345;
  std::size_t distinct = 0;
  for (int round = 0; round < 100; ++round) {
    std::set<std::uint16_t> ports;
    for (int i = 0; i < 40; ++i) {
      id = id * 1664525U + 1013904223U;  // a linear congruential generator (Numerical Recipes, 7.1)
      ports.merge(ports_of(id >> 8, 1, 1, 256));
    }
    distinct += ports.size();
  }
  EXPECT_GT(distinct, 3650U);
}

}  // namespace
}  // namespace rollcall::resolve
