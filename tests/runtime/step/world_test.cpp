#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/launchers/slurm.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"
#include "tests/runtime/launched_task.h"

namespace rollcall::step {
namespace {

using launchers::facts_from_slurm;
using launchers::slurm_task;
using launchers::with;

/// Task 2 of `srun --het-group=0,1`, one task on n3 and three on n[1-2]: Slurm sorts the nodes across components.
Environment het_world_task() {
  return with(slurm_task(), {{"SLURM_HET_SIZE", "2"},
                             {"SLURM_JOB_NODELIST_HET_GROUP_0", "n3"},
                             {"SLURM_JOB_NODELIST_HET_GROUP_1", "n[1-2]"},
                             {"SLURM_STEP_NODELIST", "n[1-3]"},
                             {"SLURM_STEP_TASKS_PER_NODE", "2,1(x2)"},
                             {"SLURM_STEP_NUM_TASKS", "4"},
                             {"SLURM_PROCID", "2"},
                             {"SLURM_NODEID", "1"},
                             {"SLURMD_NODENAME", "n1"}});
}

TEST(World, WorldSettingComponentMakesEachComponentAWorld) {
  settings::Settings settings(settings::launch_table());
  auto facts = facts_from_slurm(het_world_task());
  ASSERT_TRUE(choose_world(het_world_task(), settings, *facts));
  EXPECT_EQ(facts->world_size, 4U);
  ASSERT_TRUE(settings.set("world", "component", "test"));
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(choose_world(het_world_task(), settings, *facts));
    EXPECT_EQ(facts->rank, 1U);
    EXPECT_EQ(facts->world_size, 3U);
    EXPECT_EQ(facts->node_rank, 0U);
    EXPECT_EQ(facts->num_nodes, 2U);
    EXPECT_EQ(facts->head_host, "n1");
    EXPECT_EQ(facts->first_rank, 1U);
    EXPECT_EQ(facts->world_index, 1U);
  }
  auto ordinary = facts_from_slurm(slurm_task());
  ASSERT_TRUE(choose_world(slurm_task(), settings, *ordinary));
  EXPECT_EQ(ordinary->world_size, 5U);
}

TEST(World, RanksOfAComponentStartAtZero) {
  settings::Settings settings(settings::launch_table());
  ASSERT_TRUE(settings.set("world", "component", "test"));
  const Environment task = with(het_world_task(), {{"SLURM_STEP_TASKS_PER_NODE", "2,1,3"},  // n3, the first, has three
                                                   {"SLURM_STEP_NUM_TASKS", "6"},
                                                   {"SLURM_PROCID", "4"}});
  auto facts = facts_from_slurm(task);
  ASSERT_TRUE(facts) << facts.error().message();
  ASSERT_TRUE(choose_world(task, settings, *facts));
  EXPECT_EQ(facts->rank, 1U);
  EXPECT_EQ(facts->first_rank, 3U);
  EXPECT_EQ(facts->world_size, 3U);
}

TEST(World, AnUnknownComponentIsAnError) {
  settings::Settings settings(settings::launch_table());
  ASSERT_TRUE(settings.set("world", "component", "test"));
  Environment task = het_world_task();
  task.unset("SLURM_JOB_NODELIST_HET_GROUP_1");
  auto facts = facts_from_slurm(task);
  const auto chosen = choose_world(task, settings, *facts);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().setting, "world");
}

}  // namespace
}  // namespace rollcall::step
