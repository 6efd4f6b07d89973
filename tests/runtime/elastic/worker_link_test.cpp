#include "runtime/elastic/worker_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "runtime/contract/env_vars.h"

namespace rollcall::elastic {
namespace {

using std::chrono::milliseconds;

/// Both ends of the link between an agent and its worker, in one process.
class WorkerLinkTest : public testing::Test {
 protected:
  WorkerLinkTest() {
    std::optional<WorkerLink::Made> made = WorkerLink::make(loop_);
    agent_ = std::move(made->link);
    agent_->listen_to(getpid());
    Environment environment;
    environment.set(std::string(env::kAgentLink), std::to_string(made->worker_end));
    worker_ = AgentLink::of(environment);
  }

  void let_agent_read() { loop_.wait(Clock::now() + milliseconds(1000)); }

  EventLoop loop_;
  std::unique_ptr<WorkerLink> agent_;
  std::shared_ptr<AgentLink> worker_;
};

TEST_F(WorkerLinkTest, SurvivingWorkerHoldsAndGetsTheNextGeneration) {
  EXPECT_FALSE(agent_->survives());
  worker_->announce_survival();
  let_agent_read();
  EXPECT_TRUE(agent_->survives());
  EXPECT_FALSE(agent_->held());
  EXPECT_FALSE(worker_->hold_requested());
  const std::function<bool()> over = worker_->end_of_generation();
  EXPECT_FALSE(over());
  agent_->hold(false);
  EXPECT_TRUE(worker_->hold_requested());
  EXPECT_TRUE(over());
  agent_->begin({{"RANK", "2"}, {"EMPTY", ""}, {"LINES", "a\nb=c"}});
  const std::optional<Variables> variables = worker_->next_generation();
  ASSERT_TRUE(variables.has_value());
  EXPECT_EQ(*variables, (Variables{{"RANK", "2"}, {"EMPTY", ""}, {"LINES", "a\nb=c"}}));
  EXPECT_FALSE(worker_->hold_requested());
  EXPECT_TRUE(over()) << "that generation stays over";
  EXPECT_FALSE(worker_->end_of_generation()());
}

TEST_F(WorkerLinkTest, WorkerLearnsWhetherOthersAreLost) {
  const std::function<bool()> first = worker_->loss_in_generation();
  agent_->hold(false);
  EXPECT_TRUE(worker_->hold_requested());
  EXPECT_FALSE(first()) << "nodes come";
  agent_->begin({{"RANK", "0"}});
  EXPECT_TRUE(worker_->next_generation().has_value());
  EXPECT_TRUE(first()) << "nobody of that generation is waited for";
  const std::function<bool()> second = worker_->loss_in_generation();
  EXPECT_FALSE(second());
  agent_->hold(true);
  EXPECT_TRUE(second());
  EXPECT_TRUE(worker_->hold_requested());
}

TEST_F(WorkerLinkTest, StallReportIsDeliveredOnceUnlessTheAgentHolds) {
  worker_->report_stall("nobody answers");
  let_agent_read();
  EXPECT_FALSE(agent_->take_stall_report()) << "it does not live on";
  worker_->announce_survival();
  let_agent_read();
  worker_->report_stall("rank 2 does not answer");
  let_agent_read();
  EXPECT_EQ(agent_->take_stall_report(), "rank 2 does not answer");
  EXPECT_FALSE(agent_->take_stall_report());
  EXPECT_TRUE(agent_->survives());
  worker_->report_stall("rank 2 does not answer");
  let_agent_read();
  agent_->hold(false);
  EXPECT_FALSE(agent_->take_stall_report()) << "its generation is over";
}

TEST_F(WorkerLinkTest, WorkerDoesNotWaitForALostAgent) {
  worker_->announce_survival();
  let_agent_read();
  agent_->hold(false);
  ASSERT_TRUE(worker_->await_hold(milliseconds(1000)));
  agent_.reset();  // next_generation() would wait for it
  EXPECT_FALSE(worker_->next_generation().has_value()) << "the agent is gone";
}

TEST_F(WorkerLinkTest, SurvivalMustBeAnnouncedInEachGeneration) {
  worker_->announce_survival();
  let_agent_read();
  agent_->hold(false);
  agent_->begin({{"RANK", "0"}});
  EXPECT_FALSE(agent_->survives());
  EXPECT_TRUE(worker_->next_generation().has_value());  // its "held" comes late, and counts for nothing
  let_agent_read();
  EXPECT_FALSE(agent_->held());
}

TEST_F(WorkerLinkTest, IgnoresMessagesOfAnotherProcess) {
  agent_->listen_to(getppid());
  worker_->announce_survival();
  let_agent_read();
  EXPECT_FALSE(agent_->survives());
}

TEST_F(WorkerLinkTest, WorkerThatReadsNothingDoesNotBlockTheAgentAndDoesNotSurvive) {
  worker_->announce_survival();
  let_agent_read();
  const Variables variables{{"LONG", std::string(10'000, 'x')}};
  for (int generation = 0; generation < 1'000; ++generation) {
    agent_->begin(variables);
  }
  worker_->announce_survival();
  EXPECT_FALSE(agent_->survives());
}

TEST_F(WorkerLinkTest, ExitedWorkerDoesNotSurvive) {
  worker_->announce_survival();
  let_agent_read();
  worker_.reset();
  let_agent_read();
  EXPECT_FALSE(agent_->survives());
  agent_->hold(false);  // to nobody
  agent_->begin({});
  EXPECT_FALSE(agent_->held());
}

TEST_F(WorkerLinkTest, AwaitHoldEndsAtItsTimeout) { EXPECT_FALSE(worker_->await_hold(milliseconds(1))); }

TEST(AgentLink, InvalidDescriptorsGiveNoLink) {
  EXPECT_EQ(AgentLink::of(Environment()), nullptr);
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  for (const std::string& number : {std::to_string(pipe_ends[0]), std::string("-1"), std::string("many")}) {
    Environment environment;
    environment.set(std::string(env::kAgentLink), number);
    EXPECT_EQ(AgentLink::of(environment), nullptr) << number;
  }
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace
}  // namespace rollcall::elastic
