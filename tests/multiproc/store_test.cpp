#include "trainer/distributed/process_group/store.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <atomic>
#include <thread>

#include "tests/support/multiproc.h"
#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::process_group {
namespace {

using testing_support::Rank;
using testing_support::RankResult;
using testing_support::spawn;

/// As meet() leaves it: rank 0 holds the listening socket, all know its port and its key.
rendezvous::Meeting meeting_of(std::optional<rendezvous::Listener> listener, std::uint16_t port,
                               const std::string& world = "4711-0-0") {
  rendezvous::Meeting meeting;
  meeting.endpoint = {"127.0.0.1", port};
  meeting.key = {world, "0123456789abcdef"};
  meeting.listener = std::move(listener);
  meeting.method = "address";
  return meeting;
}

TEST(Store, RanksConnectThroughTheSocketThatRankZeroHadBound) {
  Result<rendezvous::Listener> listener = rendezvous::Listener::on_loopback();
  ASSERT_TRUE(listener.has_value());
  const std::vector<RankResult> ranks = spawn(3, [&](Rank& rank) {
    std::optional<rendezvous::Listener> mine;
    const std::uint16_t port = listener->port();
    if (rank.rank == 0) {
      mine = std::move(*listener);
    }
    rendezvous::Meeting meeting = meeting_of(std::move(mine), port);
    const auto store = connect_store(meeting, rank.rank, rank.world_size, std::chrono::seconds(30));
    MULTIPROC_CHECK(store.has_value());
    const auto group = make_process_group(*store, rank.rank, rank.world_size, {});
    MULTIPROC_CHECK(group.has_value() && group->backend == "gloo");
    at::Tensor tensor = torch::full({4}, rank.rank + 1.0);
    MULTIPROC_CHECK(all_reduce_sum(group->process_group, tensor).has_value());
    MULTIPROC_CHECK(tensor.eq(6.0).all().item<bool>());
    MULTIPROC_CHECK(barrier(group->process_group).has_value());
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Store, ARankOfAnotherWorldInTheSameStoreIsNotCounted) {
  Result<rendezvous::Listener> listener = rendezvous::Listener::on_loopback();
  ASSERT_TRUE(listener.has_value());
  const std::vector<RankResult> ranks = spawn(2, [&](Rank& rank) {
    const std::uint16_t port = listener->port();
    std::optional<rendezvous::Listener> mine;
    if (rank.rank == 0) {
      mine = std::move(*listener);
    }
    rendezvous::Meeting meeting = meeting_of(std::move(mine), port, rank.rank == 0 ? "4711-0-0" : "4712-0-0");
    const auto store = connect_store(meeting, rank.rank, rank.world_size, std::chrono::seconds(2));
    MULTIPROC_CHECK(!store.has_value());
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Store, AMissingRankIsAnErrorThatCountsThoseThatCame) {
  Result<rendezvous::Listener> listener = rendezvous::Listener::on_loopback();
  ASSERT_TRUE(listener.has_value());
  const std::vector<RankResult> ranks = spawn(1, [&](Rank&) {
    rendezvous::Meeting meeting = meeting_of(std::move(*listener), listener->port());
    const auto store = connect_store(meeting, 0, 2, std::chrono::seconds(1));
    MULTIPROC_CHECK(!store.has_value() && store.error().exit_code == ExitCode::Unavailable);
    throw std::runtime_error(store.error().message());
  });
  EXPECT_NE(ranks[0].message.find("only 1 of 2 ranks came within 1 s"), std::string::npos) << report(ranks);
}

TEST(Store, AnUnknownBackendIsRefusedBeforeAnythingIsConnected) {
  for (const char* name : {"glo", "GLOO", ""}) {
    const auto group = make_process_group(nullptr, 0, 2, {.backend = name});
    ASSERT_FALSE(group.has_value()) << name;
    EXPECT_EQ(group.error().setting, "--backend");
  }
}

TEST(Store, MpiIsRefusedWhereItsLauncherStartedNobodyWithoutWaitingForOthers) {
  const auto group = make_process_group(c10::make_intrusive<c10d::HashStore>(), 0, 2, {.backend = "mpi"});
  ASSERT_FALSE(group.has_value());
  EXPECT_EQ(group.error().setting, "--backend");
}

TEST(InterruptibleStore, AWaitEndsWhenItIsInterruptedOrItsTimeHasPassed) {
  std::atomic<bool> over = false;
  const auto inner = c10::make_intrusive<c10d::HashStore>();
  const auto store = interruptible(inner, [&] { return over.load(); });
  EXPECT_THROW(store->wait({"key"}, std::chrono::milliseconds(150)), c10::DistStoreError);
  std::thread writer([&] { static_cast<c10d::Store&>(*inner).set("key", std::string("value")); });
  EXPECT_EQ(store->get("key"), (std::vector<std::uint8_t>{'v', 'a', 'l', 'u', 'e'}));
  writer.join();
  over = true;
  EXPECT_EQ(store->get("key").size(), 5U) << "what is there needs no wait";
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_THROW(store->clone()->wait({"other"}, std::chrono::hours(1)), c10::DistStoreError);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::minutes(1));
}

}  // namespace
}  // namespace rollcall::process_group
