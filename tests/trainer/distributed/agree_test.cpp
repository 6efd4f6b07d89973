#include "trainer/distributed/process_group/collectives.h"

#include <gtest/gtest.h>

#include "tests/support/multiproc.h"

namespace rollcall::process_group {
namespace {

using testing_support::Rank;
using testing_support::RankResult;
using testing_support::spawn;

TEST(Agree, ReportsNoFailureIfAllRanksSucceeded) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const Result<Agreement> agreement = agree(rank.make_group(), Result<void>());
    MULTIPROC_CHECK(agreement.has_value());
    MULTIPROC_CHECK(!agreement->failure && agreement->failed_ranks == 0 && !agreement->prints);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Agree, EveryRankGetsTheFirstFailureAndOnlyItsOwnerPrints) {
  const std::vector<RankResult> ranks = spawn(4, [](Rank& rank) {
    Result<void> mine;
    if (rank.rank == 1 || rank.rank == 3) {
      mine = fail("--data", "/scratch/rank" + std::to_string(rank.rank), "does not exist", "", ErrorKind::NoInput);
    }
    const Result<Agreement> agreement = agree(rank.make_group(), mine);
    MULTIPROC_CHECK(agreement.has_value() && agreement->failure.has_value());
    MULTIPROC_CHECK(agreement->failure->message() == "rollcall: --data: /scratch/rank1: does not exist");
    MULTIPROC_CHECK(agreement->failure->kind == ErrorKind::NoInput);
    MULTIPROC_CHECK(agreement->first_failed_rank == 1 && agreement->failed_ranks == 2);
    MULTIPROC_CHECK(agreement->prints == (rank.rank == 1));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Agree, WorksWithASingleRank) {
  const std::vector<RankResult> ranks = spawn(1, [](Rank&) {
    MULTIPROC_CHECK(agree_or_fail(nullptr, Result<void>()).has_value());
    const Result<Agreement> agreement = agree(nullptr, fail("a", "b", "c", "d", ErrorKind::BadData));
    MULTIPROC_CHECK(agreement->prints && agreement->failure->message() == "rollcall: a: b: c; try d");
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Agree, ReportsALostPeerAsAnError) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    const Group group = rank.make_group();
    MULTIPROC_CHECK(barrier(group).has_value());
    if (rank.rank == 1) {
      raise(SIGKILL);
    }
    const Result<Agreement> agreement = agree(group, Result<void>());
    MULTIPROC_CHECK(!agreement.has_value() && agreement.error().exit_code() == ExitCode::Unavailable);
  });
  EXPECT_TRUE(ranks[0].succeeded()) << report(ranks);
  EXPECT_EQ(ranks[1].signal, SIGKILL);
}

}  // namespace
}  // namespace rollcall::process_group
