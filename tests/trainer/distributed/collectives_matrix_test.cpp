// Every collective and message that trainings call on every backend that this program was built with;
// tests/trainer/distributed/test_backend_mpi.py has MPI, which needs a launcher.

#include <gtest/gtest.h>

#include "tests/support/multiproc.h"
#include "tests/trainer/distributed/collective_checks.h"

namespace rollcall::process_group {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::report;
using testing_support::spawn;

class CollectivesMatrix : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(CollectivesMatrix, EveryOperationAgreesWithAScalarReference) {
  const std::string& backend = std::get<0>(GetParam());
  const int world_size = std::get<1>(GetParam());
  const std::vector<RankResult> ranks = spawn(static_cast<std::uint32_t>(world_size), [&](Rank& rank) {
    rank.backend = backend;
    check_every_collective(rank.make_group());
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

std::vector<int> world_sizes() {
  return full_sweep() ? std::vector{1, 2, 3, 4, 5, 6, 7, 8} : std::vector{1, 2, 3, 4, 5, 8};
}

INSTANTIATE_TEST_SUITE_P(EveryBackend, CollectivesMatrix,
                         testing::Combine(testing::ValuesIn(cpu_backends()), testing::ValuesIn(world_sizes())),
                         [](const auto& information) {
                           return std::get<0>(information.param) + "_" +
                                  std::to_string(std::get<1>(information.param)) + "_ranks";
                         });

}  // namespace
}  // namespace rollcall::process_group
