// Error messages of the ranks when a collective does not end.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "runtime/base/this_process.h"
#include "tests/support/multiproc.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/membership/rank_query.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/watchdog/watchdog.h"

namespace rollcall::process_group {
namespace {

using testing_support::Rank;
using testing_support::RankResult;
using testing_support::Ranks;
using testing_support::spawn;

constexpr std::chrono::milliseconds kTimeout(1500);

void all_reduce(const Group& group, at::Tensor tensor) {
  std::vector<at::Tensor> tensors{std::move(tensor)};
  group->allreduce(tensors)->wait();
}

void broadcast_ten(const Group& group) {
  std::vector<at::Tensor> tensors{torch::ones({10})};
  group->broadcast(tensors)->wait();
}

/// Ends the rank with the failure's message and exit code; a rank that meets none succeeds.
void tell(const std::function<void()>& work) {
  try {
    work();
  } catch (const CollectiveFailure& failure) {
    const int code = to_int(failure.error().exit_code());
    throw std::runtime_error(std::to_string(code) + " " + failure.error().message());
  }
}

bool all_tell(const std::vector<RankResult>& ranks, std::initializer_list<std::size_t> which, const std::string& part) {
  return std::all_of(which.begin(), which.end(),
                     [&](std::size_t rank) { return ranks.at(rank).message.find(part) != std::string::npos; });
}

/// A rank that lives and does not take part until the others have given up.
void wait_for_others(Rank& rank, std::uint32_t others) {
  const auto arrived = [&] {
    return static_cast<std::uint32_t>(std::distance(std::filesystem::directory_iterator(rank.folder / "told"), {}));
  };
  while (arrived() < others) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void mark_failed(Rank& rank) { std::ofstream(rank.folder / "told" / std::to_string(rank.rank)) << "told"; }

TEST(Watchdog, EveryRankNamesTheOneThatSkipsACollective) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    std::filesystem::create_directories(rank.folder / "told");
    const Group group = rank.make_group(kTimeout);
    all_reduce(group, torch::ones({10, 20}));
    if (rank.rank == 1) {
      wait_for_others(rank, 2);
      return;
    }
    try {
      tell([&] { all_reduce(group, torch::ones({30})); });
    } catch (...) {
      mark_failed(rank);
      throw;
    }
  });
  EXPECT_TRUE(ranks[1].succeeded()) << report(ranks);
  const std::string what =
      "69 rollcall: collective: all-reduce 2 (Float [30], sum, 120 B): did not end within 1.5 s: rank 1 has not "
      "arrived: "
      "it is busy elsewhere, its last collective was all-reduce 1 (Float [10, 20], sum, 800 B)";
  EXPECT_TRUE(all_tell(ranks, {0, 2}, what)) << report(ranks);
}

class WatchdogWithBackend : public testing::TestWithParam<std::string> {};

TEST_P(WatchdogWithBackend, AStoppedRankIsNamed) {
  Ranks ranks(3, [](Rank& rank) {
    rank.backend = GetParam();
    const auto store = rank.store_of_rank_0();
    const Group group = rank.make_group_over(store, kTimeout);
    all_reduce(group, torch::ones({10}));
    if (rank.rank == 2) {
      raise(SIGSTOP);
    }
    try {
      tell([&] { all_reduce(group, torch::ones({10})); });
    } catch (const std::exception&) {  // rank 0 leaves last, as in the trainer
      rank.rank == 0 ? store->wait({"rank 1 has told"}) : store->set("rank 1 has told", std::string("1"));
      throw;
    }
  });
  const std::vector<RankResult> living = ranks.wait_for({0, 1});
  EXPECT_TRUE(all_tell(living, {0, 1}, "69 rollcall: collective: all-reduce 2 (Float [10], sum, 40 B): "))
      << report(living);
  EXPECT_TRUE(all_tell(living, {0, 1}, "rank 2 does not respond, but its process is alive: it is stopped"))
      << report(living);
  EXPECT_NE((living[0].message + living[1].message).find("did not end within 1.5 s"), std::string::npos)
      << report(living);
}

TEST_P(WatchdogWithBackend, AllSurvivorsNameADeadRank) {
  const std::vector<RankResult> ranks = spawn(4, [](Rank& rank) {
    rank.backend = GetParam();
    const Group group = rank.make_group(std::chrono::seconds(100));
    all_reduce(group, torch::ones({10}));
    if (rank.rank == 2) {
      raise(SIGKILL);
    }
    tell([&] { all_reduce(group, torch::ones({10})); });
  });
  EXPECT_TRUE(all_tell(ranks, {0, 1, 3}, ": rank 2 on " + this_host_name() + " was lost (its process ended)"))
      << report(ranks);
}

INSTANTIATE_TEST_SUITE_P(EveryBackend, WatchdogWithBackend, testing::ValuesIn(cpu_backends()),
                         [](const auto& information) { return information.param; });

TEST(Watchdog, NamesARankThatDiesDuringAMessageBeforeTheTimeout) {
  Ranks ranks(2, [](Rank& rank) {
    // Static: not let go of before the process ends, since Gloo would wait for its timeout.
    static const Group group = rank.make_group(std::chrono::seconds(100));
    std::ofstream(rank.folder / ("pid" + std::to_string(rank.rank))) << getpid() << std::endl;
    std::vector<at::Tensor> message{torch::full({40 << 20}, static_cast<float>(rank.rank), torch::kFloat)};
    group->barrier()->wait();
    int peer = 0;
    std::ifstream(rank.folder / "pid1") >> peer;
    std::jthread killer([&](const std::stop_token& stop) {
      const volatile float* first = message[0].const_data_ptr<float>();
      while (rank.rank == 0 && !stop.stop_requested()) {
        if (*first != 0) {  // it has begun to arrive
          kill(peer, SIGKILL);
          return;
        }
      }
    });
    tell([&] {
      c10d::BroadcastOptions options;
      options.rootRank = 1;
      group->broadcast(message, options)->wait();
    });
  });
  const std::vector<RankResult> results = ranks.wait();
  EXPECT_EQ(results[1].signal, SIGKILL);
  EXPECT_TRUE(all_tell(results, {0}, ": rank 1 on " + this_host_name() + " was lost (its process ended)"))
      << report(results);
}

TEST(Watchdog, DoesNotReportARankThatLeftCleanly) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const Group group = rank.make_group(std::chrono::seconds(60));
    all_reduce(group, torch::ones({10}));
    if (rank.rank == 1) {  // so late that the search for lost peers has begun
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    }
    std::vector<std::vector<at::Tensor>> all;
    if (rank.rank == 0) {
      all.push_back({torch::zeros({10}), torch::zeros({10}), torch::zeros({10})});
    }
    std::vector<at::Tensor> mine{torch::ones({10})};
    group->gather(all, mine)->wait();  // rank 2 is through, and leaves, before rank 1 comes
    if (rank.rank == 0) {
      MULTIPROC_CHECK(all[0][1].eq(1).all().item<bool>());
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// Runs `work` with comparison on; messages by rank.
std::vector<RankResult> compared(const std::function<void(const Group&, bool odd)>& work) {
  return spawn(3, [&](Rank& rank) {
    const Group group = rank.make_group(std::chrono::seconds(60), /*compare_calls=*/true);
    all_reduce(group, torch::ones({4}));
    tell([&] { work(group, rank.rank == 2); });
  });
}

TEST(Watchdog, ReportsDifferingCallsBeforeTheyAreMade) {
  struct Case {
    const char* name;
    std::function<void(const Group&, bool)> work;
    const char* told;
  };
  const std::vector<Case> cases = {
      {"shape", [](const Group& group, bool odd) { all_reduce(group, torch::ones({odd ? 11 : 10})); },
       "76 rollcall: collective: 2: rank 2 calls all-reduce of Float [11], sum where rank 0 calls all-reduce of Float "
       "[10], sum"},
      {"dtype",
       [](const Group& group, bool odd) { all_reduce(group, torch::ones({10}, odd ? at::kDouble : at::kFloat)); },
       "rank 2 calls all-reduce of Double [10], sum where rank 0 calls all-reduce of Float [10], sum"},
      {"order",
       [](const Group& group, bool odd) {
         odd ? broadcast_ten(group) : all_reduce(group, torch::ones({10}));
         odd ? all_reduce(group, torch::ones({10})) : broadcast_ten(group);
       },
       "rank 2 calls broadcast of Float [10], root 0 where rank 0 calls all-reduce of Float [10], sum"},
      {"skipped",
       [](const Group& group, bool odd) {
         if (!odd) {
           all_reduce(group, torch::ones({10}));
         }
         broadcast_ten(group);
       },
       "rank 2 calls broadcast of Float [10], root 0 where rank 0 calls all-reduce of Float [10], sum"},
  };
  for (const Case& one : cases) {
    const std::vector<RankResult> ranks = compared(one.work);
    EXPECT_NE(ranks[2].message.find(one.told), std::string::npos) << one.name << "\n" << report(ranks);
    const std::string told = one.told;
    const std::string reason = "rank 2 gave up: " + told.substr(told.find("rank 2 calls"));
    EXPECT_TRUE(all_tell(ranks, {0, 1}, reason)) << one.name << "\n" << report(ranks);
  }
}

TEST(Watchdog, ComparisonDoesNotChangeMatchingCalls) {
  const std::vector<RankResult> ranks = spawn(3, [](Rank& rank) {
    const Group group = rank.make_group(std::chrono::seconds(60), /*compare_calls=*/true);
    for (int i = 0; i < 20; ++i) {
      at::Tensor tensor = torch::full({5}, static_cast<double>(rank.rank));
      MULTIPROC_CHECK(all_reduce_sum(group, tensor).has_value());
      MULTIPROC_CHECK(tensor.eq(3).all().item<bool>());
      MULTIPROC_CHECK(all_gather_bytes(group, std::vector<std::uint8_t>(rank.rank)).has_value());
    }
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

RankStatus here(std::uint64_t issued, std::uint64_t ended, std::string last) {
  return {RankStatus::Here, {.issued = issued, .ended = ended, .last = std::move(last)}};
}

TEST(RankStatus, TextNamesAtMostEightRanks) {
  std::vector<RankStatus> ranks(12);
  ranks[0] = here(5, 4, "all-reduce 5");
  ranks[1] = here(4, 3, "all-gather 4");
  ranks[2] = here(0, 0, "");
  const std::string text = who_is_missing(5, ranks);
  EXPECT_EQ(text.find("rank 0"), std::string::npos);
  EXPECT_NE(text.find("rank 1 has not arrived: it is still in all-gather 4; rank 2 has not arrived: it has not begun a "
                      "collective yet; rank 3 does not respond"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("; and 3 more"), std::string::npos) << text;
  EXPECT_EQ(who_is_missing(4, {ranks[0]}), "all ranks have arrived");
}

TEST(RankStatus, OnlyRanksThatWillNotArriveAreGone) {
  std::vector<RankStatus> ranks(5);
  ranks[1] = here(2, 2, "all-reduce 2");
  EXPECT_EQ(who_is_gone(3, ranks), "");
  ranks[2].presence = RankStatus::Ended;
  ranks[3] = {RankStatus::Left, {.issued = 3, .ended = 3, .last = "barrier 3"}};
  EXPECT_EQ(who_is_gone(3, ranks), "rank 2 was lost (its process ended)");
  EXPECT_EQ(who_is_gone(4, ranks),
            "rank 2 was lost (its process ended); rank 3 has left the group, its last collective was barrier 3");
  ranks[4] = {RankStatus::GaveUp, {.issued = 4, .ended = 3, .last = "barrier 4"}, "the disk is full"};
  EXPECT_EQ(who_is_gone(3, ranks), "rank 2 was lost (its process ended); rank 4 gave up: the disk is full");
  EXPECT_NE(who_is_missing(3, ranks).find("rank 4 gave up: the disk is full"), std::string::npos);
  ranks[2].host = "jwb0002";
  EXPECT_EQ(who_is_gone(3, ranks, {}, "in step 10"),
            "rank 2 on jwb0002 was lost in step 10 (its process ended); rank 4 gave up: the disk is full");
}

TEST(RankStatus, SubgroupRanksAreNamedByTheirGlobalRank) {
  std::vector<RankStatus> column(3);
  column[0] = here(3, 2, "barrier 3");
  column[1].presence = RankStatus::Ended;
  column[2].presence = RankStatus::Ended;
  EXPECT_EQ(who_is_gone(3, column, {.first = 1, .stride = 4}),
            "rank 5 was lost (its process ended); rank 9 was lost (its process ended)");
}

TEST(RankStatus, RoundTripsThroughTheStore) {
  const auto again = parse_rank_status(serialise(here(5, 3, "all-gather 4")));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->presence, RankStatus::Here);
  EXPECT_EQ(again->progress.issued, 5U);
  EXPECT_EQ(again->progress.ended, 3U);
  EXPECT_EQ(again->progress.last, "all-gather 4");
  EXPECT_EQ(parse_rank_status(serialise(RankStatus{.presence = RankStatus::Ended, .progress = {}}))->presence,
            RankStatus::Ended);
  const auto gave_up = parse_rank_status(serialise({RankStatus::GaveUp, {}, "the disk is full"}));
  ASSERT_TRUE(gave_up);
  EXPECT_EQ(gave_up->presence, RankStatus::GaveUp);
  EXPECT_EQ(gave_up->reason, "the disk is full");
  EXPECT_EQ(parse_rank_status(serialise({RankStatus::Ended, {}, "", "jwb0002"}))->host, "jwb0002");
  for (const char* text : {"", "here\n5\nx\ny\n\n", "elsewhere\n5\n4\ny\n\n", "here\n5\n4\ny\n"}) {
    EXPECT_FALSE(parse_rank_status(text)) << text;
  }
}

TEST(LibraryText, OmitsLocationAndAdviceOfGlooUnlessDebugging) {
  const std::string read_error = "Read error [127.0.0.1]:11165: Connection reset by peer";
  const std::string of_gloo = "[/__w/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:545] " + read_error +
                              ". This is typically caused by a remote worker hanging. GLHF!";
  unsetenv("TORCH_DISTRIBUTED_DEBUG");
  EXPECT_EQ(library_text(of_gloo + "\nstack"), read_error);
  EXPECT_EQ(library_text("ucx: rank 2 gave up\nstack"), "ucx: rank 2 gave up");
  setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL", 1);
  EXPECT_EQ(library_text(of_gloo + "\nstack"), of_gloo);
  unsetenv("TORCH_DISTRIBUTED_DEBUG");
}

/// The store of a rank 0 that is killed at the first check() of a key.
class StoreOfAKilledProcess final : public c10d::HashStore {
 public:
  explicit StoreOfAKilledProcess(pid_t holder) : holder_(holder) {}
  bool check(const std::vector<std::string>& keys) override {
    if (!asked) {
      return c10d::HashStore::check(keys);
    }
    kill(holder_, SIGKILL);
    throw std::runtime_error("the store is gone");
  }
  std::atomic<bool> asked = false;

 private:
  pid_t holder_;
};

TEST(Watchdog, DetectsAKilledRankZeroWhoseConnectionsCloseFirst) {
  const auto ranks = spawn(1, [](Rank& /*rank*/) {
    int ends[2];
    MULTIPROC_CHECK(pipe(ends) == 0);
    const pid_t holder = fork();
    if (holder == 0) {
      const std::string identity = process_identity();
      MULTIPROC_CHECK(write(ends[1], identity.data(), identity.size()) == static_cast<ssize_t>(identity.size()));
      close(ends[1]);
      while (true) {
        pause();
      }
    }
    close(ends[1]);
    std::string identity(4096, '\0');
    identity.resize(static_cast<std::size_t>(read(ends[0], identity.data(), identity.size())));
    const auto store = c10::make_intrusive<StoreOfAKilledProcess>(holder);
    const std::string list = "processes of " + process_space();
    store->add(list, 1);
    static_cast<c10d::Store&>(*store).set(list + "/1", "0\n" + identity);
    Watchdog watchdog(store, {.rank = 1, .world_size = 2});
    store->asked = true;
    CollectiveCall call;
    call.number = 1;
    const Error error = watchdog.explain(call, std::chrono::steady_clock::now(), "reset");
    watchdog.stop();
    waitpid(holder, nullptr, 0);
    throw std::runtime_error(error.message());
  });
  EXPECT_NE(ranks[0].message.find("rank 0 was lost (its process ended)"), std::string::npos) << ranks[0].message;
}

}  // namespace
}  // namespace rollcall::process_group
