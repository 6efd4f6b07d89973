// Ranks of two versions do not train together.

#include "trainer/train/equal_settings.h"

#include <gtest/gtest.h>

#include "tests/support/multiproc.h"
#include "trainer/config/options.h"
#include "trainer/train/job_context.h"

namespace rollcall::train {
namespace {

using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;

TEST(EqualSettings, ARankOfAnotherVersionNamesBothAndItsHost) {
  const auto ranks = spawn(3, [](Rank& rank) {
    JobContext context;
    context.rank = rank.rank;
    context.world_size = rank.world_size;
    context.host = "node" + std::to_string(rank.rank);
    context.process_group = rank.make_group();
    const settings::Settings settings(config::trainer_table());
    const auto found = confirm_equal_settings(context, settings, settings::print_config(settings, true),
                                              rank.rank == 1 ? "rollcall 2" : "rollcall 1");
    MULTIPROC_CHECK(found.has_value() == (rank.rank != 1));
    if (!found) {
      MULTIPROC_CHECK(found.error().kind == ErrorKind::Mismatch);
      MULTIPROC_CHECK(
          found.error().message() ==
          "rollcall: version: rollcall 2: is the version of rank 1 on node1, but rank 0 has rollcall 1; try "
          "starting all ranks from one installation");
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

}  // namespace
}  // namespace rollcall::train
