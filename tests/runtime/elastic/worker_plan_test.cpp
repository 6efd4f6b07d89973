#include "runtime/elastic/worker_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "runtime/job/marker.h"

namespace rollcall::elastic {
namespace {

Environment one_variable(const std::string& name, const std::string& value) {
  return Environment(std::map<std::string, std::string, std::less<>>{{name, value}});
}

std::map<std::string, std::string> variables(const LaunchRequest& request, const Generation& generation,
                                             std::uint32_t local_rank, const Environment& agent = Environment()) {
  const auto made = worker_variables(request, generation, local_rank, "", agent);
  return made ? std::map<std::string, std::string>(made->begin(), made->end()) : std::map<std::string, std::string>();
}

Generation of_three_nodes() {
  Generation generation;
  generation.number = 2;
  generation.group_rank = 2;
  generation.world = {{"a", "", 2, "trainer"}, {"b", "", 3, "reader"}, {"c", "", 4, "trainer"}};
  generation.address = "a";
  generation.port = 4000;
  return generation;
}

TEST(WorkerVariables, CountRanksPerNodeAndPerRole) {
  LaunchRequest request;
  request.workers = 4;
  request.role = "trainer";
  auto own = variables(request, of_three_nodes(), 1);
  EXPECT_EQ(own["RANK"], "6");
  EXPECT_EQ(own["WORLD_SIZE"], "9");
  EXPECT_EQ(own["LOCAL_RANK"], "1");
  EXPECT_EQ(own["LOCAL_WORLD_SIZE"], "4");
  EXPECT_EQ(own["GROUP_RANK"], "2");
  EXPECT_EQ(own["GROUP_WORLD_SIZE"], "3");
  EXPECT_EQ(own["ROLE_RANK"], "3");
  EXPECT_EQ(own["ROLE_WORLD_SIZE"], "6");
  EXPECT_EQ(own["MASTER_PORT"], "4000");
}

TEST(WorkerVariables, OmpNumThreadsIsOneForSeveralWorkersUnlessSet) {
  LaunchRequest request;
  Generation generation = of_three_nodes();
  request.workers = 2;
  EXPECT_EQ(variables(request, generation, 0)["OMP_NUM_THREADS"], "1");
  EXPECT_EQ(variables(request, generation, 0, one_variable("OMP_NUM_THREADS", "8")).count("OMP_NUM_THREADS"), 0U);
  request.workers = 1;
  EXPECT_EQ(variables(request, generation, 0).count("OMP_NUM_THREADS"), 0U);
}

TEST(WorkerVariables, VirtualLocalRankSeesOnlyItsOwnGpu) {
  LaunchRequest request;
  request.workers = 2;
  request.virtual_local_rank = true;
  auto own = variables(request, of_three_nodes(), 1, one_variable("CUDA_VISIBLE_DEVICES", "4, 6"));
  EXPECT_EQ(own["LOCAL_RANK"], "0");
  EXPECT_EQ(own["CUDA_VISIBLE_DEVICES"], "6");
  EXPECT_EQ(variables(request, of_three_nodes(), 1)["CUDA_VISIBLE_DEVICES"], "1");
  EXPECT_TRUE(variables(request, of_three_nodes(), 1, one_variable("CUDA_VISIBLE_DEVICES", "4")).empty());
}

/// The agent's environment under `srun --ddp`, one task a node: each value is marked as a rollcall's.
Environment of_the_plugin(std::map<std::string, std::string, std::less<>> values) {
  job::Marker marker;
  for (const auto& [name, value] : values) {
    marker.emplace(name, job::fnv1a(value));
  }
  values.emplace("ROLLCALL_SET", job::to_text(marker));
  return Environment(std::move(values));
}

TEST(WorkerVariables, PluginVariablesOfTheAgentAreRecomputedForEachWorker) {
  LaunchRequest request;
  request.workers = 4;
  const Environment agent = of_the_plugin({{"NODE_RANK", "5"},
                                           {"LOCAL_SIZE", "1"},
                                           {"CROSS_RANK", "5"},
                                           {"CROSS_SIZE", "8"},
                                           {"JAX_COORDINATOR_ADDRESS", "head:1"},
                                           {"JAX_NUM_PROCESSES", "8"},
                                           {"JAX_PROCESS_ID", "5"},
                                           {"JAX_LOCAL_DEVICE_IDS", "0,1,2,3"}});
  auto own = variables(request, of_three_nodes(), 1, agent);
  EXPECT_EQ(own["NODE_RANK"], "2");
  EXPECT_EQ(own["LOCAL_SIZE"], "4");
  EXPECT_EQ(own["CROSS_RANK"], "2");
  EXPECT_EQ(own["CROSS_SIZE"], "3");
  EXPECT_EQ(own["JAX_COORDINATOR_ADDRESS"], "a:4000");
  EXPECT_EQ(own["JAX_NUM_PROCESSES"], "9");
  EXPECT_EQ(own["JAX_PROCESS_ID"], "6");
  EXPECT_EQ(own["JAX_LOCAL_DEVICE_IDS"], "1");
  request.workers = 1;
  EXPECT_EQ(variables(request, of_three_nodes(), 0, agent).count("JAX_LOCAL_DEVICE_IDS"), 0U)
      << "an only worker has all that the agent has";
  request.virtual_local_rank = true;
  EXPECT_EQ(variables(request, of_three_nodes(), 0, agent)["JAX_LOCAL_DEVICE_IDS"], "0");
}

TEST(WorkerVariables, UserVariablesAndUnsetVariablesAreNotChanged) {
  LaunchRequest request;
  request.workers = 2;
  EXPECT_EQ(variables(request, of_three_nodes(), 0).count("JAX_PROCESS_ID"), 0U);
  const Environment users = one_variable("JAX_COORDINATOR_ADDRESS", "mine:7");
  EXPECT_EQ(variables(request, of_three_nodes(), 0, users).count("JAX_COORDINATOR_ADDRESS"), 0U);
}

TEST(WorkerVariables, WorkersShareTheThreadsOfTheAgentsTask) {
  LaunchRequest request;
  request.workers = 4;
  const Environment agent = of_the_plugin({{"OMP_NUM_THREADS", "30"}});
  EXPECT_EQ(variables(request, of_three_nodes(), 0, agent)["OMP_NUM_THREADS"], "7");
  const Environment small = of_the_plugin({{"OMP_NUM_THREADS", "2"}});
  EXPECT_EQ(variables(request, of_three_nodes(), 0, small)["OMP_NUM_THREADS"], "1");
  request.workers = 1;
  EXPECT_EQ(variables(request, of_three_nodes(), 0, agent).count("OMP_NUM_THREADS"), 0U);
}

TEST(Substitute, FollowsPythonsTemplates) {
  const auto with = [](const char* text) { return substitute(text, {{"rank", "3"}}); };
  EXPECT_EQ(with("a${rank}b$rank-c"), "a3b3-c");
  EXPECT_EQ(with("$$rank $ ${other} ${rank $5 $"), "$rank $ ${other} ${rank $5 $");
}

}  // namespace
}  // namespace rollcall::elastic
