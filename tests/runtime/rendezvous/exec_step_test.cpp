#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/rendezvous/exec_step.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/settings/launch_settings.h"
#include "tests/runtime/thread_pmix.h"

namespace rollcall::rendezvous {
namespace {

using step::ResolvedStep;

settings::Settings defaults() { return settings::Settings(settings::launch_table()); }

/// What each of `ranks` threads, as ranks of one PMIx run, resolves.
std::vector<Result<ResolvedStep>> agree(std::uint32_t ranks, const std::vector<Environment>& environments) {
  Exchange exchange(ranks);
  std::vector<std::optional<Result<ResolvedStep>>> found(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadPmix pmix(exchange, rank);
      found[rank] = resolve_and_agree(environments[rank % environments.size()], defaults(), pmix);
    });
  }
  std::vector<Result<ResolvedStep>> steps;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads[rank].join();
    steps.push_back(std::move(*found[rank]));
  }
  return steps;
}

std::string port_of(const Result<ResolvedStep>& step) { return step->patch.find("MASTER_PORT")->value; }

TEST(ResolveAndAgree, AllRanksGetTheFreePortThatRank0Chose) {
  const auto first = agree(3, {Environment()});
  const auto taken = Listener::on_all_addresses(*parse_integer<std::uint16_t>(port_of(first[0])));
  ASSERT_TRUE(taken) << taken.error().message();
  const auto steps = agree(3, {Environment()});
  for (const Result<ResolvedStep>& step : steps) {
    ASSERT_TRUE(step) << step.error().message();
    EXPECT_EQ(port_of(step), port_of(steps[0]));
    EXPECT_EQ(step->patch.find("MASTER_PORT")->origin, "pmix");
  }
  EXPECT_NE(port_of(steps[0]), port_of(first[0])) << "somebody listens there";
}

TEST(ResolveAndAgree, KeepsAnEndpointOfTheUser) {
  const auto steps = agree(2, {Environment({{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "12345"}})});
  EXPECT_EQ(port_of(steps[1]), "12345");
  EXPECT_EQ(steps[1]->patch.find("MASTER_PORT")->origin, "user");
}

TEST(ResolveAndAgree, FailedRankDoesNotBlockTheOthers) {
  const Environment wrong({{"RANK", "7"}, {"WORLD_SIZE", "9"}});
  for (const bool zero_fails : {true, false}) {
    const auto steps = agree(2, zero_fails ? std::vector{wrong, Environment()} : std::vector{Environment(), wrong});
    const Result<ResolvedStep>& failed = steps[zero_fails ? 0 : 1];
    const Result<ResolvedStep>& other = steps[zero_fails ? 1 : 0];
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::Mismatch);
    EXPECT_EQ(other.has_value(), !zero_fails) << "without rank 0 there is no endpoint";
  }
}

}  // namespace
}  // namespace rollcall::rendezvous
