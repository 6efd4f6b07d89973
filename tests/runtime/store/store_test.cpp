// Server and clients on pairs of connected sockets, as admission leaves them.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <latch>

#include "runtime/store/client.h"
#include "runtime/store/server.h"

namespace rollcall::store {
namespace {

using rendezvous::Socket;
using std::chrono::milliseconds;
using Status = Answer::Status;
using testing::HasSubstr;
using testing::StartsWith;

Patience within(std::chrono::milliseconds time) { return {.until = Patience::Clock::now() + time}; }

std::pair<Socket, Socket> connected() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

/// Rank 0 and the sockets of the others.
struct World {
  explicit World(std::uint32_t world_size, std::size_t may_hold = std::size_t{1} << 30) : most(may_hold) {
    std::map<std::uint32_t, Socket> members;
    for (std::uint32_t rank = 1; rank < world_size; ++rank) {
      auto [here, there] = connected();
      members.emplace(rank, std::move(here));
      heads.push_back(std::move(there));
    }
    server = Server::serve(std::move(members), most).value();
  }
  std::shared_ptr<Client> client(std::uint32_t rank) {
    return Client::over(std::move(heads.at(rank - 1)), most).value();
  }

  std::size_t most;
  std::vector<Socket> heads;
  std::shared_ptr<Server> server;
};

Status set(Access& access, const std::string& key, const std::string& value = "") {
  return access.ask({Operation::Set, {key}, {value}}).status;
}
std::string get(Access& access, const std::string& key) {
  const Answer answer = access.ask({Operation::Get, {key}});
  return answer.values.size() == 1 ? *answer.values[0] : fmt::format("status {}", static_cast<int>(answer.status));
}

std::set<int> open_descriptors() {
  std::set<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    open.insert(std::stoi(entry.path().filename()));
  }
  std::erase_if(open, [](int descriptor) { return fcntl(descriptor, F_GETFD) < 0; });  // the one that listed them
  return open;
}

TEST(Store, AllDescriptorsAreCloseOnExec) {
  const std::set<int> before = open_descriptors();
  World world(2);
  const auto one = world.client(1);
  std::set<int> own = open_descriptors();
  std::erase_if(own, [&](int descriptor) { return before.contains(descriptor); });
  EXPECT_EQ(own.size(), 5U) << "two sockets, two eventfds, epoll";
  for (const int descriptor : own) {
    EXPECT_NE(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0) << descriptor;
  }
}

TEST(Store, EveryRankReadsTheValuesOfAllRanks) {
  World world(3);
  const auto one = world.client(1);
  const auto two = world.client(2);
  EXPECT_EQ(set(*world.server, "0", "zero"), Status::Done);
  EXPECT_EQ(set(*one, "1", "one"), Status::Done);
  EXPECT_EQ(set(*two, "2", "two"), Status::Done);
  for (Access* const access : std::initializer_list<Access*>{world.server.get(), one.get(), two.get()}) {
    EXPECT_EQ(get(*access, "0") + get(*access, "1") + get(*access, "2"), "zeroonetwo");
    EXPECT_EQ(access->ask({Operation::Count}).number, 3);
  }
}

TEST(Store, ThreadsOnOneConnectionGetTheirOwnAnswers) {
  constexpr int kThreads = 32;
  World world(3);
  const std::array<std::shared_ptr<Access>, 3> ways{world.server, world.client(1), world.client(2)};
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int number = 0; number < kThreads; ++number) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      // Each waits for the value of the next one, the last for that of the test.
      threads.emplace_back([&, number, way] {
        const std::string word = get(*ways[way], fmt::format("{} {}", number + 1, way));
        right += word == "value" ? 1 : 0;
        (void)set(*ways[(way + 1) % ways.size()], fmt::format("{} {}", number, way), word);
      });
    }
  }
  for (std::size_t way = 0; way < ways.size(); ++way) {
    EXPECT_EQ(set(*ways[way], fmt::format("{} {}", kThreads, way), "value"), Status::Done);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right, kThreads * 3);
}

TEST(Store, TransfersAValueOfManyFrames) {
  World world(3);
  const auto one = world.client(1);
  const auto two = world.client(2);
  std::string value(std::size_t{9} << 20, 'x');
  for (std::size_t i = 0; i < value.size(); i += 4093) {
    value[i] = static_cast<char>(i);
  }
  std::future<std::string> awaited = std::async(std::launch::async, [&] { return get(*two, "large"); });
  EXPECT_EQ(set(*one, "large", value), Status::Done);
  EXPECT_EQ(awaited.get() == value, true);
  EXPECT_EQ(get(*world.server, "large") == value, true);
}

TEST(Store, ConcurrentLargeSetsAndGetsDoNotDeadlock) {
  World world(2);
  const auto one = world.client(1);
  const std::string value(std::size_t{3} << 20, 'x');
  ASSERT_EQ(set(*one, "there", value), Status::Done);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int number = 0; number < 6; ++number) {
    threads.emplace_back([&, number] {
      const bool sends = number % 2 == 0;
      right += sends ? set(*one, std::to_string(number), value) == Status::Done : get(*one, "there") == value;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right, 6);
}

TEST(Store, WaitEndsAtItsTimeoutWithoutSideEffects) {
  World world(2);
  const auto one = world.client(1);
  for (Access* const access : std::initializer_list<Access*>{world.server.get(), one.get()}) {
    EXPECT_EQ(access->ask({Operation::Get, {"key"}}, within(milliseconds(5))).status, Status::TimedOut);
    EXPECT_EQ(set(*access, "key", "value"), Status::Done);
    EXPECT_EQ(get(*access, "key"), "value");
    EXPECT_EQ(access->ask({Operation::Remove, {"key"}}).number, 1);
  }
}

TEST(Store, WaitCanBeInterruptedUnlessTheKeyExists) {
  World world(2);
  const auto one = world.client(1);
  for (Access* const access : std::initializer_list<Access*>{world.server.get(), one.get()}) {
    std::atomic<bool> over = false;
    const Patience patience{.interrupted = [&] { return over.load(); }};
    std::latch begun(1);
    std::future<Answer> wait = std::async(std::launch::async, [&] {
      begun.count_down();
      return access->ask({Operation::Wait, {"never"}}, patience);
    });
    begun.wait();
    over = true;
    EXPECT_EQ(wait.get().status, Status::TimedOut);
    EXPECT_EQ(set(*access, "key"), Status::Done);
    EXPECT_EQ(access->ask({Operation::Wait, {"key"}}, patience).status, Status::Done);
  }
}

TEST(Store, UnlimitedWaitIsCheckedPeriodically) {
  const Patience patience;
  const auto latest = Patience::Clock::now() + std::chrono::hours(2);
  WaitLimit limit(patience);
  EXPECT_LT(limit.next(), latest);
  EXPECT_FALSE(limit.over());
}

TEST(Store, AnotherThreadContinuesToReadWhenTheReaderTimesOut) {
  World world(2);
  const auto one = world.client(1);
  std::future<std::string> patient = std::async(std::launch::async, [&] { return get(*one, "key"); });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(one->ask({Operation::Wait, {"never"}}, within(milliseconds(i % 3))).status, Status::TimedOut);
  }
  EXPECT_EQ(set(*world.server, "key", "value"), Status::Done);
  EXPECT_EQ(patient.get(), "value");
}

TEST(Store, WaitsAndRequestsFailWhenRank0IsGone) {
  World world(2);
  const auto one = world.client(1);
  std::vector<std::future<Answer>> waits;
  for (Access* const access : std::initializer_list<Access*>{world.server.get(), one.get()}) {
    for (int i = 0; i < 3; ++i) {
      waits.push_back(std::async(std::launch::async, [=] { return access->ask({Operation::Wait, {"never"}}); }));
    }
  }
  world.server->close();
  for (std::future<Answer>& wait : waits) {
    EXPECT_EQ(wait.get().status, Status::Gone);
  }
  EXPECT_EQ(one->ask({Operation::Count}).status, Status::Gone);
  EXPECT_EQ(world.server->ask({Operation::Count}).status, Status::Gone);
}

TEST(Store, ClosedRankLosesItsWaitsButKeepsItsValues) {
  World world(3);
  auto one = world.client(1);
  const auto two = world.client(2);
  EXPECT_EQ(set(*one, "last", "word"), Status::Done);
  EXPECT_EQ(one->ask({Operation::Wait, {"key"}}, within(milliseconds(1))).status, Status::TimedOut);
  one.reset();
  EXPECT_EQ(set(*two, "key", "value"), Status::Done);
  EXPECT_EQ(get(*two, "last"), "word");
}

TEST(Store, ServerSetsLeftAndClosedKeysWhenARankDisconnects) {
  World world(4);
  auto one = world.client(1);
  auto two = world.client(2);
  const auto three = world.client(3);
  EXPECT_EQ(set(*two, left_key(2)), Status::Done);  // by itself
  EXPECT_EQ(world.server->ask({Operation::Wait, {left_key(1), left_key(2)}}, within(milliseconds(1))).status,
            Status::TimedOut);
  two.reset();
  EXPECT_EQ(world.server->ask({Operation::Wait, {closed_key(1)}}).status, Status::Done);
  one.reset();
  EXPECT_EQ(world.server->ask({Operation::Wait, {left_key(1), left_key(2), closed_key(2)}}).status, Status::Done);
  EXPECT_EQ(get(*three, closed_key(1)), "2");
  EXPECT_EQ(get(*three, closed_key(2)), "1");
}

TEST(Store, RequestsSentBeforeADisconnectAreProcessed) {
  World world(2);
  {
    Socket head = std::move(world.heads[0]);
    const std::string set = encode(1, Request{Operation::Set, {"last"}, {"word"}});
    ASSERT_TRUE(head.send_frame(std::string(1, '\0') + set, rendezvous::Clock::now() + std::chrono::seconds(10)));
  }
  EXPECT_EQ(get(*world.server, "last"), "word");
}

TEST(Store, RequestsSentBeforeADisconnectAreProcessedWhenAnAnswerFails) {
  World world(3);
  Socket one = std::move(world.heads[0]);
  Socket two = std::move(world.heads[1]);
  const auto send_request = [](Socket& head, const Request& request) {
    const auto deadline = rendezvous::Clock::now() + std::chrono::seconds(10);
    EXPECT_TRUE(head.send_frame('\0' + encode(1, request), deadline));
  };
  send_request(one, {Operation::Wait, {"key"}});
  send_request(one, {Operation::Set, {"begun"}, {""}});
  EXPECT_EQ(get(*world.server, "begun"), "");
  // Here the server's thread reads no socket; afterwards it handles the second rank first.
  const auto while_no_socket_is_read = [&] {
    send_request(two, {Operation::Set, {"key"}, {""}});
    send_request(one, {Operation::Set, {"last"}, {"word"}});
    one = Socket();
    return true;
  };
  EXPECT_EQ(world.server->ask({Operation::Wait, {"never"}}, {.interrupted = while_no_socket_is_read}).status,
            Status::TimedOut);
  EXPECT_EQ(world.server->ask({Operation::Get, {"last"}}, within(std::chrono::seconds(10))).status, Status::Done);
}

TEST(Store, DisconnectsAPeerThatSendsAnInvalidFrame) {
  const std::string request = encode(1, Request{Operation::Count});
  for (const std::string& frame : {std::string(), std::string("\0", 1), "\2" + request, '\0' + request + "x"}) {
    World world(2);
    Socket head = std::move(world.heads[0]);
    const auto deadline = rendezvous::Clock::now() + std::chrono::seconds(10);
    ASSERT_TRUE(head.send_frame(frame, deadline));
    const Result<std::string> answer = head.receive_frame(deadline);
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().reason, HasSubstr("closed the connection"));
    EXPECT_EQ(world.server->ask({Operation::Count}).status, Status::Done);
  }
}

TEST(Store, RequestsOfARankThatReadsNoAnswersArePaused) {
  World world(3);
  const auto two = world.client(2);
  Socket head = std::move(world.heads[0]);
  ASSERT_EQ(set(*two, "value", std::string(std::size_t{1} << 20, 'x')), Status::Done);
  // Each asks for a megabyte.
  constexpr int kRequests = 300;
  for (std::uint64_t number = 1; number <= kRequests; ++number) {
    head.frames().queue('\0' + encode(number, Request{Operation::Get, {"value"}}));
  }
  head.frames().queue('\0' + encode(kRequests + 1, Request{Operation::Set, {"heard"}, {""}}));
  ASSERT_TRUE(head.flush());
  ASSERT_EQ(head.frames().unsent(), 0U);
  EXPECT_EQ(two->ask({Operation::Check, {"heard"}}).number, 0);
  for (int i = 0; i < kRequests + 1;) {
    Result<std::string> frame = head.receive_frame(rendezvous::Clock::now() + std::chrono::seconds(60));
    ASSERT_TRUE(frame);
    i += frame->starts_with('\0') ? 1 : 0;
  }
  EXPECT_EQ(two->ask({Operation::Check, {"heard"}}).number, 1);
}

TEST(Store, SlowReaderGetsAllAnswers) {
  World world(2);
  Socket head = std::move(world.heads[0]);
  const std::string value(std::size_t{1} << 14, 'x');
  ASSERT_EQ(set(*world.server, "value", value), Status::Done);
  constexpr std::uint64_t kRequests = 200;
  const auto ask = [&](std::uint64_t number, Request request) {
    head.frames().queue('\0' + encode(number, std::move(request)));
  };
  ask(1, {Operation::Set, {"begun"}, {""}, 0, true});
  ask(2, {Operation::Wait, {"key"}});
  for (std::uint64_t number = 3; number <= kRequests; ++number) {
    ask(number, {Operation::Get, {"value"}});
  }
  ASSERT_LT(head.frames().unsent(), 16384U) << "the server takes all of them at once";
  ASSERT_TRUE(head.flush());
  while (world.server->ask({Operation::Check, {"begun"}}).number == 0) {
    std::this_thread::yield();
  }
  // Of what fills the connection so little is read that it takes one answer more, and epoll does not call it writable.
  std::string taken(2 * value.size(), 0);
  ASSERT_EQ(recv(head.descriptor(), taken.data(), taken.size(), MSG_WAITALL), static_cast<ssize_t>(taken.size()));
  ASSERT_EQ(set(*world.server, "key"), Status::Done);
  head.frames().append(taken);
  for (std::uint64_t i = 2; i <= kRequests; ++i) {
    ASSERT_TRUE(head.receive_frame(rendezvous::Clock::now() + std::chrono::seconds(10))) << "answer " << i;
  }
}

TEST(Store, ARequestThatIsTooLongIsRefusedBeforeItIsSent) {
  World world(2);
  const auto one = world.client(1);
  for (Access* const access : std::initializer_list<Access*>{world.server.get(), one.get()}) {
    const Answer answer = access->ask({Operation::Set, {"key"}, {std::string(kLongestRequest, 'x')}});
    EXPECT_EQ(answer.status, Status::Refused);
    EXPECT_THAT(answer.refusal, HasSubstr("exceeds the limit"));
    EXPECT_EQ(access->ask({Operation::Count}).number, 0);
  }
}

TEST(Store, FullStoreRefusesTheRequestOrTheNextOneOfThatRank) {
  World world(2, 10'000);
  const auto one = world.client(1);
  EXPECT_EQ(set(*world.server, "key", std::string(10'000, 'x')), Status::Refused);
  EXPECT_EQ(set(*one, "key", std::string(10'000, 'x')), Status::Done) << "on its way";
  const Answer next = one->ask({Operation::Check, {"key"}});
  EXPECT_EQ(next.status, Status::Refused);
  EXPECT_THAT(next.refusal, StartsWith("of an earlier request: the store is full"));
  EXPECT_EQ(one->ask({Operation::Check, {"key"}}).number, 0) << "told once";
}

}  // namespace
}  // namespace rollcall::store
