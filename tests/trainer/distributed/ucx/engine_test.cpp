// The UCX engine between real processes, over shared memory and TCP, with and without failures.

#include "trainer/distributed/backends/ucx/engine/engine.h"

#include <gtest/gtest.h>
#include <numeric>

#include "tests/trainer/distributed/ucx/engine_group.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace rollcall::process_group::ucx {
namespace {

using testing_support::all_reduce;
using testing_support::all_succeeded;
using testing_support::all_to_all_among;
using testing_support::broadcast;
using testing_support::connect;
using testing_support::help_with;
using testing_support::RankContext;
using testing_support::RankProcesses;
using testing_support::RankResult;
using testing_support::report;
using testing_support::submit;

void check_for_leaks() {
#if defined(__SANITIZE_ADDRESS__)
  MULTIPROC_CHECK(__lsan_do_recoverable_leak_check() == 0);
#endif
}

void expect_success(const std::string& failure) {
  if (!failure.empty()) {
    throw std::runtime_error("failed: " + failure);
  }
}

/// That it failed with one of these texts.
void expect_failure(const std::string& failure, const std::vector<std::string>& texts) {
  if (std::none_of(texts.begin(), texts.end(), [&](const auto& text) { return failure.find(text) != failure.npos; })) {
    throw std::runtime_error("failed otherwise: " + failure);
  }
}

/// "all" sends short messages through shared memory, and long ones through windows; "posix" sends all of them.
class UcxEngine : public testing::TestWithParam<std::string> {
 protected:
  /// Runs `work` on every rank over the transport under test, and looks for leaks at its end.
  [[nodiscard]] std::unique_ptr<RankProcesses> start(std::uint32_t world_size,
                                                     const std::function<void(const RankContext&)>& work) const {
    return std::make_unique<RankProcesses>(world_size, [&](const RankContext& place) {
      setenv("UCX_TLS", GetParam().c_str(), 1);
      work(place);
      check_for_leaks();
    });
  }
};

/// Adds up on an engine of `size` ranks, of which this is `rank`; the failure. Even ranks help their engine, odd ones
/// wait for it: all tests see both.
std::string add_up(Engine& engine, std::uint32_t rank, std::uint32_t size, std::size_t count,
                   std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  std::vector<float> values(count, static_cast<float>(rank + 1));
  const bool helps = rank % 2 == 0;
  Operation operation = all_reduce(values, timeout);
  operation.awaited = helps;
  std::future<std::string> ended = submit(engine, std::move(operation));
  const std::string failure = helps ? help_with(engine, std::move(ended)) : ended.get();
  if (failure.empty()) {
    const float sum = static_cast<float>(size * (size + 1)) / 2;
    MULTIPROC_CHECK(std::all_of(values.begin(), values.end(), [&](float value) { return value == sum; }));
  }
  return failure;
}

TEST_P(UcxEngine, AllReducesShortAndLongArraysOnEveryRank) {
  const auto ranks = start(4, [](const RankContext& place) {
    const auto engine = connect(place);
    for (const std::size_t count : {1U, 1000U, 50000U, 1000001U}) {
      MULTIPROC_CHECK(add_up(*engine, place.rank, place.world_size, count).empty());
    }
  });
  EXPECT_TRUE(all_succeeded(ranks->wait())) << report(ranks->wait());
}

TEST_P(UcxEngine, CompletesManyOperationsOfSeveralThreads) {
  const auto ranks = start(2, [](const RankContext& place) {
    const auto engine = connect(place);
    std::vector<std::vector<float>> sums(50, std::vector<float>(3000, 1));
    std::vector<std::future<std::string>> earlier, later;
    for (std::size_t i = 0; i < 25; ++i) {
      earlier.push_back(submit(*engine, all_reduce(sums[i])));
    }
    std::thread other([&] {  // submits and helps while this thread does
      for (std::size_t i = 25; i < 50; ++i) {
        later.push_back(submit(*engine, all_reduce(sums[i])));
      }
      MULTIPROC_CHECK(help_with(*engine, std::move(later.back())).empty());
    });
    for (std::future<std::string>& failure : earlier) {
      MULTIPROC_CHECK(help_with(*engine, std::move(failure)).empty());
    }
    other.join();
    later.pop_back();
    for (std::future<std::string>& failure : later) {
      MULTIPROC_CHECK(failure.get().empty());
    }
    MULTIPROC_CHECK(sums == std::vector(50, std::vector<float>(3000, 2)));
  });
  EXPECT_TRUE(all_succeeded(ranks->wait())) << report(ranks->wait());
}

/// All ranks but the last add up until one of them fails; the last one waits for the test's signal.
std::string add_up_until_failure(Engine& engine, const RankContext& place, std::chrono::milliseconds timeout) {
  std::string failure;
  while (failure.empty()) {
    failure = add_up(engine, place.rank, place.world_size, 300000, timeout);
    std::ofstream(place.folder / ("added" + std::to_string(place.rank)));
  }
  return failure;
}

void await_file(const std::filesystem::path& path) {
  for (int i = 0; i < 60000 && !std::filesystem::exists(path); ++i) {
    usleep(1000);
  }
}

/// What a survivor of four does once the group has failed: another group of three, in the same process.
void regroup(std::unique_ptr<Engine> engine, const RankContext& place) {
  MULTIPROC_CHECK(engine->has_failed());
  MULTIPROC_CHECK(!add_up(*engine, place.rank, 4, 10).empty());  // fails at once
  engine.reset();
  const auto smaller = connect(place, "smaller", place.rank, 3);
  MULTIPROC_CHECK(add_up(*smaller, place.rank, 3, 300000).empty());
}

TEST_P(UcxEngine, NamesAKilledRankAndTheOthersRegroup) {
  const auto ranks = start(4, [](const RankContext& place) {
    auto engine = connect(place);
    const std::string failure = add_up_until_failure(*engine, place, std::chrono::seconds(60));
    expect_failure(failure, {"all_reduce of 1200000 bytes"});
    expect_failure(failure, {"rank 3"});
    regroup(std::move(engine), place);
  });
  await_file(ranks->folder() / "added0");
  ranks->signal(3, SIGKILL);
  const std::vector<RankResult>& results = ranks->wait();
  EXPECT_EQ(results[3].signal, SIGKILL);
  EXPECT_TRUE(std::all_of(results.begin(), results.end() - 1, [](const RankResult& r) { return r.succeeded(); }))
      << report(results);
}

TEST_P(UcxEngine, NamesAKilledRankToAHelpingThread) {
  const auto ranks = start(2, [](const RankContext& place) {
    const auto engine = connect(place);
    expect_failure(add_up_until_failure(*engine, place, std::chrono::seconds(60)), {"rank 1 is gone"});
    MULTIPROC_CHECK(engine->has_failed());
  });
  await_file(ranks->folder() / "added0");
  ranks->signal(1, SIGKILL);
  EXPECT_TRUE(ranks->wait()[0].succeeded()) << report(ranks->wait());
}

TEST_P(UcxEngine, NamesAKilledRankWhoseQueueWasFull) {
  const auto ranks = start(2, [](const RankContext& place) {
    const auto engine = connect(place);
    std::ofstream(place.folder / ("connected" + std::to_string(place.rank)));
    await_file(place.folder / "stopped");
    std::vector<float> values(1000);
    std::vector<std::future<std::string>> sent;
    for (int i = 0; i < 4000; ++i) {  // more than its queue in shared memory or the socket between them holds
      sent.push_back(submit(*engine, broadcast(values)));
    }
    std::ofstream(place.folder / "sent");
    expect_failure(sent.back().get(), {"rank 1 is gone"});
  });
  await_file(ranks->folder() / "connected0");
  await_file(ranks->folder() / "connected1");
  ranks->signal(1, SIGSTOP);
  std::ofstream(ranks->folder() / "stopped");
  await_file(ranks->folder() / "sent");
  ranks->signal(1, SIGKILL);
  EXPECT_TRUE(ranks->wait()[0].succeeded()) << report(ranks->wait());
}

TEST_P(UcxEngine, TimesOutOnAStoppedRankAndTheOthersRegroup) {
  const auto ranks = start(4, [](const RankContext& place) {
    auto engine = connect(place);
    const std::string failure = add_up_until_failure(*engine, place, std::chrono::milliseconds(1500));
    expect_failure(failure, {"not done within 1500 ms; waits for rank", "gave up, because of rank"});
    regroup(std::move(engine), place);
  });
  await_file(ranks->folder() / "added0");
  ranks->signal(3, SIGSTOP);
  await_file(ranks->folder() / "smaller0");
  await_file(ranks->folder() / "smaller1");
  await_file(ranks->folder() / "smaller2");
  ranks->signal(3, SIGKILL);
  const std::vector<RankResult>& results = ranks->wait();
  EXPECT_TRUE(std::all_of(results.begin(), results.end() - 1, [](const RankResult& r) { return r.succeeded(); }))
      << report(results);
}

TEST_P(UcxEngine, ACleanExitFailsOnlyOperationsThatNeedTheRank) {
  const auto ranks = start(3, [](const RankContext& place) {
    auto engine = connect(place);
    MULTIPROC_CHECK(add_up(*engine, place.rank, 3, 100).empty());
    if (place.rank == 2) {
      engine.reset();
      std::ofstream(place.folder / "left");
      return;
    }
    await_file(place.folder / "left");
    const std::vector<std::byte> sent(8000);
    std::vector<std::byte> received(8000);
    for (int i = 0; i < 20; ++i) {
      expect_success(submit(*engine, all_to_all_among({0, 1}, 3, 4000, sent, received)).get());
    }
    expect_failure(add_up(*engine, place.rank, 3, 100), {"rank 2"});
  });
  EXPECT_TRUE(all_succeeded(ranks->wait())) << report(ranks->wait());
}

TEST_P(UcxEngine, ReportsSizesThatDifferBetweenRanks) {
  const auto ranks = start(2, [](const RankContext& place) {
    for (const std::size_t count : {100U, 300000U}) {
      const auto engine = connect(place, "of" + std::to_string(count) + "-");
      expect_failure(add_up(*engine, place.rank, 2, count + place.rank * count / 4),
                     {"same operations with the same sizes", "gave up"});
    }
  });
  EXPECT_TRUE(all_succeeded(ranks->wait())) << report(ranks->wait());
}

TEST_P(UcxEngine, AllToAllWithSizesOnOneRankFailsOnlyThroughWindows) {
  const auto ranks = start(2, [](const RankContext& place) {
    const auto engine = connect(place);
    constexpr std::size_t kPart = 100000;
    const std::vector<std::byte> sent(2 * kPart, static_cast<std::byte>(place.rank + 1));
    std::vector<std::byte> received(2 * kPart);
    Operation operation;
    operation.name = "all-to-all";
    operation.timeout = std::chrono::seconds(60);
    operation.collective.kind = process_group::CollectiveKind::AllToAll;
    operation.collective.bytes = kPart;
    operation.collective.input = sent.data();
    operation.collective.output = received.data();
    if (place.rank == 1) {
      operation.collective.send_bytes = operation.collective.receive_bytes = {kPart, kPart};
    }
    const std::string failure = submit(*engine, std::move(operation)).get();
    if (GetParam() == "all") {
      expect_failure(failure, {"same operations with the same sizes", "gave up"});
      return;
    }
    expect_success(failure);
    MULTIPROC_CHECK(received.front() == std::byte{1} && received.back() == std::byte{2});
  });
  EXPECT_TRUE(all_succeeded(ranks->wait())) << report(ranks->wait());
}

void say_done(const RankContext& place) { std::ofstream(place.folder / ("done" + std::to_string(place.rank))); }

/// Returns whether this is rank 2, for which the others wait: it calls no collective, and stays until they are done.
bool is_absent(const RankContext& place) {
  if (place.rank == 2) {
    await_file(place.folder / "done0");
    await_file(place.folder / "done1");
  }
  return place.rank == 2;
}

TEST_P(UcxEngine, AbortFailsPendingOperationsOnAllRanks) {
  const auto ranks = start(3, [](const RankContext& place) {
    const auto engine = connect(place);
    if (is_absent(place)) {
      return;
    }
    std::vector<float> values(100, 1);
    std::future<std::string> pending = submit(*engine, all_reduce(values));
    if (place.rank == 0) {
      engine->abort("the user asked for it");
    }
    expect_failure(pending.get(), {place.rank == 0 ? "the user asked for it" : "rank 0 gave up"});
    say_done(place);
  });
  EXPECT_TRUE(all_succeeded(ranks->wait())) << report(ranks->wait());
}

TEST_P(UcxEngine, ShutdownEndsTheWaitOfAnotherThread) {
  const auto ranks = start(3, [](const RankContext& place) {
    const auto engine = connect(place);
    if (is_absent(place)) {
      return;
    }
    std::vector<float> values(100, 1);
    std::future<std::string> never = submit(*engine, all_reduce(values));
    std::thread helper([&] { expect_failure(help_with(*engine, std::move(never)), {"given up", "gave up", "left"}); });
    engine->shutdown();
    helper.join();
    say_done(place);
  });
  EXPECT_TRUE(all_succeeded(ranks->wait())) << report(ranks->wait());
}

TEST_P(UcxEngine, RunsOperationsSubmittedInACallback) {
  const auto ranks = start(2, [](const RankContext& place) {
    const auto engine = connect(place);
    std::vector<float> first(100, 1), second(100000, 1);
    std::promise<std::string> both;
    Operation operation = all_reduce(first);
    operation.awaited = true;
    operation.done = [&](const std::string&) {
      Operation next = all_reduce(second);
      next.done = [&both](const std::string& failure) { both.set_value(failure); };
      engine->submit(std::move(next));
    };
    engine->submit(std::move(operation));
    MULTIPROC_CHECK(help_with(*engine, both.get_future()).empty());
    MULTIPROC_CHECK(first[0] == 2 && second[99999] == 2);
  });
  EXPECT_TRUE(all_succeeded(ranks->wait())) << report(ranks->wait());
}

INSTANTIATE_TEST_SUITE_P(Transports, UcxEngine, testing::Values("all", "posix", "tcp"), [](const auto& information) {
  return information.param == "all" ? "any" : information.param;
});

}  // namespace
}  // namespace rollcall::process_group::ucx
