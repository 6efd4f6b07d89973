// Training gives the same result over every backend: the collectives of two ranks add the same two numbers.

#include <gtest/gtest.h>

#include "tests/trainer/distributed/fsdp_network.h"

namespace rollcall::parallel {
namespace {

using testing_support::all_succeeded;
using testing_support::data_parallel;
using testing_support::make_mesh;
using testing_support::make_network;
using testing_support::Network;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::report;
using testing_support::sharded;
using testing_support::spawn;
using testing_support::train;

TEST(BackendParity, TwoRanksTrainBitIdenticallyOverEveryBackend) {
  const std::vector<RankResult> ranks = spawn(2, [](Rank& rank) {
    Network reference = make_network();
    const auto expected = train(*data_parallel(reference, make_mesh(rank).world), reference, rank.rank);
    for (const std::string& backend : process_group::cpu_backends()) {
      rank.backend = backend;
      const process_group::Mesh mesh = make_mesh(rank);
      Network whole = make_network();
      MULTIPROC_CHECK(train(*data_parallel(whole, mesh.world), whole, rank.rank) == expected);
      Network divided = make_network();
      MULTIPROC_CHECK(train(*sharded(divided, mesh), divided, rank.rank) == expected);
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::parallel
