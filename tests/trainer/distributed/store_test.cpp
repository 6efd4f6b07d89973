#include "trainer/distributed/process_group/store.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <atomic>
#include <csignal>
#include <thread>

#include "tests/support/connected_ranks.h"
#include "tests/support/multiproc.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/libtorch_version.h"

namespace rollcall::process_group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing_support::ConnectedRanks;
using testing_support::Rank;
using testing_support::RankResult;
using testing_support::Ranks;
using testing_support::spawn;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// Runs `work` on ranks that have connected to a store.
void with_store(std::uint32_t world_size, const std::function<void(Rank&, StorePtr&)>& work,
                const std::vector<std::uint32_t>& killed = {}) {
  ConnectedRanks connected(world_size);
  Ranks ranks(world_size, [&](Rank& rank) {
    rendezvous::Meeting meeting = connected.take(rank.rank);
    Result<StorePtr> store = connect_store(meeting, rank.rank, rank.world_size, seconds(60));
    MULTIPROC_CHECK(store.has_value());
    work(rank, *store);
  });
  connected.close_all();
  const std::vector<RankResult> results = ranks.wait();
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const bool is_killed = std::ranges::find(killed, rank) != killed.end();
    EXPECT_TRUE(is_killed ? results[rank].signal == SIGKILL : results[rank].succeeded()) << report(results);
  }
}

TEST(Store, CreatesGroupsOfEveryBackend) {
  with_store(3, [](Rank& rank, StorePtr& store) {
    for (const std::string& backend : cpu_backends()) {
      const auto own = c10::make_intrusive<c10d::PrefixStore>(backend, store);
      const auto group = make_process_group(own, rank.rank, rank.world_size, {.backend = backend});
      MULTIPROC_CHECK(group.has_value() && group->backend == backend);
      at::Tensor tensor = torch::full({4}, rank.rank + 1.0);
      MULTIPROC_CHECK(all_reduce_sum(group->process_group, tensor).has_value());
      MULTIPROC_CHECK(tensor.eq(6.0).all().item<bool>());
      MULTIPROC_CHECK(barrier(group->process_group).has_value());
    }
    store->add("left", 1);  // rank 0 leaves last
    while (rank.rank == 0 && store->add("left", 0) < rank.world_size) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
}

TEST(Store, WaitFailsAtOnceWhenRankZeroDies) {
  with_store(3,
             [](Rank& rank, StorePtr& store) {
               std::string what;
               try {
                 if (store->add("here", 1) == rank.world_size) {
                   store->set("all", std::string("1"));
                 }
                 store->wait({"all"});
                 if (rank.rank == 0) {
                   raise(SIGKILL);
                 }
                 store->wait({"never"}, std::chrono::hours(1));
               } catch (const c10::DistNetworkError& error) {
                 what = error.what_without_backtrace();
               }
               MULTIPROC_CHECK(what.find("the store is gone") != std::string::npos);
             },
             {0});
}

TEST(Store, KeepsServingWhenARankOtherThanZeroIsKilled) {
  with_store(3,
             [](Rank& rank, StorePtr& store) {
               if (rank.rank == 1) {
                 store->set("1", std::string("last word"));
                 raise(SIGKILL);
               }
               MULTIPROC_CHECK(store->get_to_str("1") == "last word");
               store->set(std::to_string(rank.rank), std::string("here"));
               MULTIPROC_CHECK(store->get_to_str(std::to_string(2 - rank.rank)) == "here");
               if (rank.rank == 2) {
                 store->set("done", std::string());
                 return;
               }
               store->wait({"done"});
             },
             {1});
}

TEST(Store, ClonesOnRankZeroDoNotKeepTheServerAlive) {
  with_store(2, [](Rank& rank, StorePtr& store) {
    const StorePtr clone = store->clone();
    clone->set(std::to_string(rank.rank), std::string("here"));
    MULTIPROC_CHECK(store->get_to_str(std::to_string(1 - rank.rank)) == "here");
    if (rank.rank == 1) {
      store.reset();
      MULTIPROC_CHECK(clone->get_to_str("0") == "here");
      clone->set("done", std::string());
    } else {
      store->wait({"done"});
      store.reset();
    }
    bool gone = false;
    try {
      clone->wait({"never"}, seconds(60));
    } catch (const c10::DistNetworkError&) {
      gone = true;
    }
    MULTIPROC_CHECK(gone);
  });
}

TEST(Store, InterruptsWaitsOfTheStoreAndItsClones) {
  const auto ranks = spawn(1, [](Rank& /*rank*/) {
    std::atomic<bool> over = false;
    rendezvous::Meeting meeting;
    const StorePtr store = *connect_store(meeting, 0, 1, seconds(60), [&] { return over.load(); });
    std::thread writer([&] { store->set("key", std::string("value")); });
    MULTIPROC_CHECK(store->get_to_str("key") == "value");
    writer.join();
    over = true;
    MULTIPROC_CHECK(store->get_to_str("key") == "value");  // what is there needs no wait
    bool ended = false;
    try {
      store->clone()->wait({"other"}, std::chrono::hours(1));
    } catch (const c10::DistStoreError&) {
      ended = true;
    }
    MULTIPROC_CHECK(ended);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// The results of a sequence of operations.
class Record {
 public:
  template <typename Operation>
  void note(const std::string& what, Operation operation) {
    try {
      entries.push_back(what + ": " + text(operation()));
    } catch (const std::exception& error) {
      entries.push_back(what + ": " + kind(error));
    }
  }
  std::vector<std::string> entries;

 private:
  static std::string kind(const std::exception& error) {
    const auto is = [&]<typename Kind>(Kind* /*kind*/) { return dynamic_cast<const Kind*>(&error) != nullptr; };
    return is(static_cast<c10::DistNetworkError*>(nullptr)) ? "DistNetworkError"
           : is(static_cast<c10::DistStoreError*>(nullptr)) ? "DistStoreError"
           : is(static_cast<c10::ValueError*>(nullptr))     ? "ValueError"
                                                            : std::string("another exception: ") + error.what();
  }
  static std::string text(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
  static std::string text(const std::vector<std::vector<std::uint8_t>>& values) {
    std::string all;
    for (const auto& value : values) {
      all += text(value) + ",";
    }
    return all;
  }
  static std::string text(const std::string& text) { return text; }
  static std::string text(std::int64_t number) { return std::to_string(number); }
};

std::vector<std::uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// All that a c10d::Store is asked for, on two that have the same keys.
std::vector<std::string> record_of(const StorePtr& store, const StorePtr& other) {
  Record record;
  const std::int64_t before = store->getNumKeys();
  const auto note = [&](const std::string& what, auto operation) { record.note(what, operation); };
  const auto done = [](auto operation) {
    return [operation] {
      operation();
      return std::string("done");
    };
  };
  const std::string binary("a\0b\xff\n", 5);
  note("set", done([&] { store->set("key", binary); }));
  note("get", [&] { return store->get("key"); });
  note("get by the other", [&] { return other->get("key"); });
  note("set again, to nothing", done([&] { other->set("key", std::string()); }));
  note("check that it has arrived", [&] { return std::int64_t{other->check({"key"})}; });
  note("get nothing", [&] { return store->get("key"); });
  note("add to none", [&] { return store->add("n", 5); });
  note("add less", [&] { return other->add("n", -7); });
  note("get a sum", [&] { return store->get("n"); });
  note("set a number", done([&] { store->set("n", std::string("40")); }));
  note("add to it", [&] { return store->add("n", 2); });
  note("compareSet, another", [&] { return store->compareSet("n", bytes("41"), bytes("x")); });
  note("compareSet, the same", [&] { return store->compareSet("n", bytes("42"), bytes("x")); });
  note("compareSet, none there", [&] { return store->compareSet("c", bytes("expected"), bytes("x")); });
  note("check that", [&] { return std::int64_t{store->check({"c"})}; });
  note("compareSet, none expected", [&] { return store->compareSet("c", bytes(""), bytes("x")); });
  note("check both", [&] { return std::int64_t{store->check({"c", "n"})}; });
  note("check one of two", [&] { return std::int64_t{store->check({"c", "none"})}; });
  note("deleteKey", [&] { return std::int64_t{other->deleteKey("c")}; });
  note("deleteKey again", [&] { return std::int64_t{store->deleteKey("c")}; });
  note("append to none", done([&] { store->append("a", bytes("one")); }));
  note("append", done([&] { store->append("a", bytes("two")); }));
  note("get what was appended", [&] { return store->get("a"); });
  note("multiSet", done([&] { store->multiSet({"m", "k"}, {bytes("1"), bytes("")}); }));
  note("multiSet of unequal numbers", done([&] { store->multiSet({"m", "k"}, {bytes("1")}); }));
  note("multiGet", [&] { return store->multiGet({"k", "m", "a"}); });
  note("getNumKeys", [&] { return store->getNumKeys() - before; });
  note("wait for what is there", done([&] { store->wait({"k", "m"}); }));
  note("wait for no time", done([&] { store->wait({"none"}, milliseconds(0)); }));
  note("wait too long", done([&] { store->wait({"k", "none"}, milliseconds(20)); }));
#if !ROLLCALL_LIBTORCH_2_11
  note("barrier of one", done([&] { store->barrier("b", 1, seconds(10)); }));
#endif
  note("hasExtendedApi", [&] { return std::int64_t{store->hasExtendedApi()}; });
  store->setTimeout(milliseconds(20));
  note("getTimeout", [&] { return store->getTimeout().count(); });
  note("get too long", [&] { return store->get("none"); });
  note("multiGet too long", [&] { return store->multiGet({"k", "none"}); });
  note("wait too long by default", done([&] { store->wait({"none"}); }));
  note("set on a clone", done([&] { store->clone()->set("clone", std::string("value")); }));
  note("get what a clone set", [&] { return other->clone()->get("clone"); });
  std::thread writer([&] { other->set("later", std::string("value")); });
  store->setTimeout(milliseconds::max());
  note("get what comes later", [&] { return store->get("later"); });
  store->setTimeout(seconds(60));
  writer.join();
  return record.entries;
}

/// What is left to `client` when the server is gone.
std::vector<std::string> record_without_server(const StorePtr& client) {
  Record record;
  record.note("add", [&] { return client->add("n", 1); });
  record.note("check", [&] { return std::int64_t{client->check({"n"})}; });
  record.note("get", [&] { return client->get("n"); });
  record.note("compareSet", [&] { return client->compareSet("n", bytes(""), bytes("x")); });
  record.note("deleteKey", [&] { return std::int64_t{client->deleteKey("n")}; });
  record.note("getNumKeys", [&] { return client->getNumKeys(); });
  record.note("multiGet", [&] { return client->multiGet({"n"}); });
  record.note("wait", [&] {
    client->wait({"n"}, seconds(10));
    return std::string("done");
  });
  return record.entries;
}

void check_equal(const std::vector<std::string>& ours, const std::vector<std::string>& reference) {
  for (std::size_t i = 0; i < std::max(ours.size(), reference.size()); ++i) {
    if (ours.at(i) != reference.at(i)) {
      throw std::runtime_error("ours: " + ours[i] + "; c10d::TCPStore's: " + reference[i]);
    }
  }
}

TEST(Store, BehavesLikeTcpStore) {
  const auto ranks = spawn(1, [](Rank& /*rank*/) {
    auto [of_head, of_other] = ConnectedRanks(2).take_both();
    StorePtr server = *connect_store(of_head, 0, 2, seconds(60));
    const StorePtr client = *connect_store(of_other, 1, 2, seconds(60));
    c10d::TCPStoreOptions options{.port = 0, .isServer = true, .waitWorkers = false, .timeout = seconds(60)};
    auto tcp_server = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    options.port = tcp_server->getPort();
    options.isServer = false;
    const StorePtr tcp_client = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    check_equal(record_of(client, server), record_of(tcp_client, tcp_server));
    for (const StorePtr& one : {client, server, tcp_client, StorePtr(tcp_server)}) {
      for (const char* const key : {"key", "n", "a", "m", "k", "b", "clone", "later"}) {
        one->deleteKey(key);
      }
    }
    check_equal(record_of(server, client), record_of(tcp_server, tcp_client));
    server.reset();
    tcp_server.reset();
    check_equal(record_without_server(client), record_without_server(tcp_client));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Store, RejectsAValueAboveTheSizeLimit) {
  const auto ranks = spawn(1, [](Rank& /*rank*/) {
    rendezvous::Meeting meeting;
    const StorePtr store = *connect_store(meeting, 0, 1, seconds(60));
    std::string what;
    try {
      store->set("key", std::vector<std::uint8_t>(std::size_t{65} << 20));
    } catch (const c10::DistStoreError& error) {
      what = error.what_without_backtrace();
    }
    MULTIPROC_CHECK(what.find("exceeds the limit") != std::string::npos);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Store, ClosesTheListenerOnceRanksAreConnected) {
  const auto ranks = spawn(1, [](Rank& /*rank*/) {
    Result<rendezvous::Listener> listener = rendezvous::Listener::on_loopback();
    MULTIPROC_CHECK(listener.has_value());
    const std::uint16_t port = listener->port();
    rendezvous::Meeting meeting;
    meeting.listener = std::move(*listener);
    const Result<StorePtr> store = connect_store(meeting, 0, 1, seconds(60));
    MULTIPROC_CHECK(store.has_value());
    MULTIPROC_CHECK(rendezvous::nobody_listens({"127.0.0.1", port}, std::chrono::steady_clock::now() + seconds(10)));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(Store, RejectsAnUnknownBackendBeforeConnecting) {
  for (const char* name : {"glo", "GLOO", ""}) {
    const auto group = make_process_group(nullptr, 0, 2, {.backend = name});
    ASSERT_FALSE(group.has_value()) << name;
    EXPECT_EQ(group.error().setting, "--backend");
  }
}

TEST(Store, RejectsMpiWithoutItsLauncherBeforeWaitingForOthers) {
  const auto group = make_process_group(c10::make_intrusive<c10d::HashStore>(), 0, 2, {.backend = "mpi"});
  ASSERT_FALSE(group.has_value());
  EXPECT_EQ(group.error().setting, "--backend");
}

}  // namespace
}  // namespace rollcall::process_group
