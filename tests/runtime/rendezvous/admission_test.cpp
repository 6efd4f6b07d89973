#include "runtime/rendezvous/admission.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/handshake.h"
#include "runtime/rendezvous/socket.h"
#include "tests/support/crowd.h"
#include "tests/support/plain_peer.h"

namespace rollcall::rendezvous {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

const WorldKey kKey{"4711-0-0", "0123456789abcdef"};

Secret secret_of(const std::string& drawn) { return Secret::of(drawn, kKey.name); }
Seal of_admission() { return {secret_of("drawn"), "admission"}; }

Clock::time_point in_time() { return Clock::now() + seconds(30); }

Listener rank_0_listener() {
  Result<Listener> made = Listener::on_all_addresses(0);
  EXPECT_TRUE(made);
  return *std::move(made);
}

LocationSource at(const Listener& rank_0, const std::string& drawn = "drawn") {
  return [location = Location{{"127.0.0.1", rank_0.port()}, secret_of(drawn)}] { return Locations{{location}, ""}; };
}

Result<Admission> join(const LocationSource& source, const AdmissionRequest& request, double timeout = 30) {
  return be_admitted(source, request, std::chrono::duration<double>(timeout), "rendezvous.folder", "/x");
}

/// Rank 0 of a world of `size`, on a thread.
std::future<Result<Members>> rank_0(const Listener& own, std::uint32_t size, double timeout = 30) {
  return std::async(std::launch::async, [&own, size, timeout] {
    return admit_others(own, kKey, secret_of("drawn"), size, std::chrono::duration<double>(timeout));
  });
}

std::future<Result<Admission>> rank(const Listener& zero, std::uint32_t number, std::uint32_t size) {
  return std::async(std::launch::async, [&zero, number, size] { return join(at(zero), {kKey.name, number, size}); });
}

/// A connection on which `text` was sent, sealed with this secret or another one. Rank 0 listens already.
Socket sender(const Listener& own, const std::string& text, const Seal& with = of_admission()) {
  Socket socket(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor, End::Client, with);
  EXPECT_TRUE(socket.send_frame(text, in_time()));
  return socket;
}

std::string hello(std::uint32_t number, std::uint32_t size) {
  return to_text(Hello{.rank = number, .world_size = size, .host = "far"});
}

/// A connection accepted by a process that knows the secret.
Result<Socket> accepted_as_rank_0(const Listener& own) {
  const int descriptor = accept(own.descriptor(), nullptr, nullptr);
  return Socket(descriptor, End::Server, of_admission());
}

TEST(Admission, AllRanksStartTogetherWithTheKeyOfRank0) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 3);
  auto one = rank(own, 1, 3);
  auto two = rank(own, 2, 3);
  Result<Members> members = zero.get();
  ASSERT_TRUE(members) << members.error().message();
  std::uint32_t number = 1;
  for (auto* other : {&one, &two}) {
    Result<Admission> admission = other->get();
    ASSERT_TRUE(admission) << admission.error().message();
    EXPECT_EQ(to_text(admission->key), "4711-0-0-0123456789abcdef");
    EXPECT_EQ(admission->endpoint.port, own.port());
    EXPECT_TRUE(admission->head.send_frame("and so on", in_time()));
    const Result<std::string> heard = members->at(number++).receive_frame(in_time());
    EXPECT_TRUE(heard && *heard == "and so on") << "the connections stay open";
  }
}

/// Checks that the peer was disconnected without any answer but the opening.
void expect_rejected_silently(Socket& stranger) {
  EXPECT_FALSE(stranger.receive_frame(in_time())) << "is hung up on";
  EXPECT_FALSE(stranger.frames().proven());
}

TEST(Admission, SendsNothingToPeersWithoutTheSecret) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2);
  for (const Seal& other : {Seal{secret_of("another"), "admission"}, Seal{secret_of("drawn"), "doctor"},
                            Seal{Secret::of("drawn", "4712-0-0"), "admission"}}) {
    Socket stranger = sender(own, hello(1, 2), other);
    expect_rejected_silently(stranger);
  }
  Socket in_clear(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
  ASSERT_TRUE(in_clear.send_frame(hello(1, 2), in_time()));
  expect_rejected_silently(in_clear);
  EXPECT_TRUE(join(at(own), {kKey.name, 1, 2}));
  EXPECT_TRUE(zero.get()) << "strangers do not keep the world from meeting";
}

TEST(Admission, BothSidesReportADifferentSecret) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2, 2);
  const auto other = join(at(own, "another"), {kKey.name, 1, 2}, 1);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::RendezvousUnanswered);
  EXPECT_THAT(
      other.error().reason,
      HasSubstr("a rollcall process listens there that does not know the secret of 4711-0-0 (rendezvous.secret)"));
  EXPECT_THAT(zero.get().error().reason,
              HasSubstr("rejected: 127.0.0.1, which does not know the secret (rendezvous.secret)"));
}

TEST(Admission, RejectsAProcessOfAnotherUserOnThisHostEvenWithTheSecret) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can be another user";
  }
  const Listener own = rank_0_listener();
  ASSERT_EQ(seteuid(4711), 0);
  Socket thief(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor, End::Client, of_admission());
  ASSERT_EQ(seteuid(0), 0);
  auto zero = rank_0(own, 2, 2);
  ASSERT_TRUE(thief.send_frame(hello(1, 2), in_time()));
  expect_rejected_silently(thief);
  EXPECT_THAT(zero.get().error().reason, HasSubstr("rejected: a process of user 4711"));
}

TEST(Admission, DropsAMemberThatSendsMoreAndAcceptsItsRankAgain) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2 + 1);
  Socket talks = sender(own, hello(1, 3));
  ASSERT_TRUE(talks.receive_frame(in_time()));
  ASSERT_TRUE(talks.send_frame("more", in_time()));
  EXPECT_FALSE(talks.receive_frame(in_time()));  // closed, not "begin"
  auto one = rank(own, 1, 3);
  auto two = rank(own, 2, 3);
  EXPECT_TRUE(one.get());
  EXPECT_TRUE(two.get());
  EXPECT_TRUE(zero.get());
}

TEST(Admission, DropsAMemberThatSendsMoreTogetherWithItsHello) {
  const Listener own = rank_0_listener();
  Socket talks(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor, End::Client, of_admission());
  talks.frames().queue(hello(1, 2));
  talks.frames().queue("more");
  auto zero = rank_0(own, 2);
  EXPECT_TRUE(talks.receive_frame(in_time()));
  EXPECT_FALSE(talks.receive_frame(in_time()));
  EXPECT_TRUE(rank(own, 1, 2).get());
  EXPECT_TRUE(zero.get());
}

TEST(Admission, RefusesRanksThatAreNotPartOfThisWorld) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 3);
  const Socket one = sender(own, hello(1, 3));
  for (const auto& [number, size, reason] : {std::tuple{2U, 4U, "accepts only ranks of its own run, not rank 2 of 4"},
                                             std::tuple{3U, 3U, "accepts only ranks of its own run, not rank 3 of 3"},
                                             std::tuple{0U, 3U, "accepts only ranks of its own run, not rank 0 of 3"},
                                             std::tuple{1U, 3U, "rank 1 of 4711-0-0 has already joined, from far"}}) {
    const Result<std::string> answer = sender(own, hello(number, size)).receive_frame(in_time());
    ASSERT_TRUE(answer);
    EXPECT_THAT(*answer, AllOf(testing::StartsWith("refused\n"), HasSubstr(reason)));
  }
  auto two = rank(own, 2, 3);
  EXPECT_TRUE(zero.get());
  EXPECT_TRUE(two.get());
}

TEST(Admission, InvalidMessagesOfOtherPeersDoNotDisturbTheAdmission) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2);
  const Socket silent(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
  Socket browser(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
  ASSERT_TRUE(transfer(browser, std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n", 18)), browser, {}, in_time()));
  EXPECT_FALSE(browser.receive_frame(in_time())) << "is hung up on";
  EXPECT_FALSE(sender(own, "4\n2").receive_frame(in_time()));
  const Result<std::string> other_version = sender(own, "rollcall 99\nrank\n1\n2\nfar").receive_frame(in_time());
  EXPECT_TRUE(other_version && other_version->ends_with("not rollcall 99: it is another version of rollcall"));
  EXPECT_FALSE(sender(own, "").receive_frame(in_time()));
  EXPECT_TRUE(rank(own, 1, 2).get());
  EXPECT_TRUE(zero.get());
}

TEST(Admission, ClosesAPeerThatSendsTooMuchBeforeBufferingIt) {
  const Listener own = rank_0_listener();
  Socket stranger(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
  const std::string length{0, 0x3F, 0, 0};  // of a frame that may be: 4,128,768 bytes
  const std::string endless = length + std::string(100'000, 'x');
  ASSERT_GT(send(stranger.descriptor(), endless.data(), endless.size(), MSG_NOSIGNAL), 0);
  auto zero = rank_0(own, 2);
  const Result<std::string> answer = stranger.receive_frame(in_time());
  EXPECT_FALSE(answer);
  EXPECT_THAT(answer.error().reason, HasSubstr("closed"));
  EXPECT_TRUE(rank(own, 1, 2).get());
  EXPECT_TRUE(zero.get());
}

/// UndefinedBehaviorSanitizer opens a pipe to find out whether it may read an object: where it gets none, it takes a
/// sound object for a broken one.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCanLackDescriptors = false;
#else
constexpr bool kCanLackDescriptors = true;
#endif
constexpr const char* kSkipReason = "the sanitizers need file descriptors of their own";

TEST(Admission, SilentConnectionsDoNotBlockRanksWhenDescriptorsRunOut) {
  if (!kCanLackDescriptors) {
    GTEST_SKIP() << kSkipReason;
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Listener own = rank_0_listener();
  std::vector<Socket> silent;
  for (int i = 0; i < 40; ++i) {
    silent.emplace_back(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
    ASSERT_TRUE(silent.back().is_open());
  }
  auto one = rank(own, 1, 2);
  const int next = ::dup(0);  // what is open now stays so, and 20 more may be
  ::close(next);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 20;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const Result<Members> met = admit_others(own, kKey, secret_of("drawn"), 2, seconds(30));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(met) << met.error().message();
}

TEST(Admission, ReadsPendingMessagesBeforeItClosesSilentConnections) {
  if (!kCanLackDescriptors) {
    GTEST_SKIP() << kSkipReason;
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Listener own = rank_0_listener();
  auto one = rank(own, 1, 2);
  std::vector<Socket> silent;
  for (int i = 0; i < 40; ++i) {
    silent.emplace_back(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
    ASSERT_TRUE(silent.back().is_open());
  }
  const int next = ::dup(0);
  ::close(next);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 20;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const Result<Members> met = admit_others(own, kKey, secret_of("drawn"), 2, seconds(30));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(met) << met.error().message();
}

TEST(Admission, FiveThousandForeignConnectionsDoNotBlockARankOrUseMuchMemory) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may open so many files everywhere";
  }
  const Listener own = rank_0_listener();
  const std::size_t before = resident_kilobytes();
  const Crowd crowd(own.port(), 5000);
  auto zero = rank_0(own, 2);
  EXPECT_TRUE(crowd.await());
  const Result<Admission> one = join(at(own), {kKey.name, 1, 2});
  EXPECT_TRUE(one) << one.error().message();
  EXPECT_TRUE(zero.get());
  EXPECT_LT(resident_kilobytes(), before + 16'384) << "some 256 wait at a time, with 4 KiB each";
}

TEST(Admission, SilentAlternativeLocationsDoNotDelayTheFirst) {
  std::uint16_t port = 0;
  {
    const Listener free = rank_0_listener();
    port = free.port();
  }
  std::vector<Listener> silent;
  std::vector<Location> locations{{{"127.0.0.1", port}, secret_of("drawn")}};
  for (int i = 0; i < 8; ++i) {
    silent.push_back(rank_0_listener());
    locations.push_back({{"127.0.0.1", silent.back().port()}, secret_of("drawn")});
  }
  bool asked = false;
  std::optional<Listener> own;
  std::future<Result<Members>> zero;
  const LocationSource source = [&] {
    if (std::exchange(asked, true) && !own) {  // rank 0 is one round late
      Result<Listener> made = Listener::on_all_addresses(port);
      EXPECT_TRUE(made) << made.error().message();
      own = *std::move(made);
      zero = rank_0(*own, 2);
    }
    return Locations{locations, ""};
  };
  EXPECT_TRUE(join(source, {kKey.name, 1, 2}, 4));
  EXPECT_TRUE(zero.get());
}

TEST(Admission, SendsNothingToAListenerOfAnotherUserOnThisHost) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can be another user";
  }
  constexpr uid_t kStranger = 4711;
  ASSERT_EQ(seteuid(kStranger), 0);
  const Listener foreign = rank_0_listener();  // a socket is of the user who made it
  ASSERT_EQ(seteuid(0), 0);
  const auto other = join(at(foreign), {kKey.name, 1, 2}, 0.2);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().reason, HasSubstr("a process of user 4711 listens there, which cannot be rank 0"));
  Result<Socket> asked = accept_one(foreign.descriptor(), in_time());
  ASSERT_TRUE(asked);
  EXPECT_FALSE(asked->receive_frame(in_time())) << "told neither the world's name nor anything else";
}

TEST(Admission, RejectsAListenerThatIsNotRank0) {
  const Listener foreign = rank_0_listener();
  for (const std::string answer : {"", "here", "there\nabc", "HTTP/1.1 400"}) {
    auto serving = std::async(std::launch::async, [&] {
      Result<Socket> socket = accepted_as_rank_0(foreign);
      (void)socket->receive_frame(in_time());
      (void)socket->send_frame(answer, in_time());
    });
    // One round is enough: afterwards nobody accepts, so that a second would only wait.
    bool asked = false;
    const LocationSource once = [&] { return std::exchange(asked, true) ? Locations{} : at(foreign)(); };
    const auto other = join(once, {kKey.name, 1, 2}, 0.5);
    ASSERT_FALSE(other) << answer;
    EXPECT_THAT(other.error().reason, HasSubstr("another program listens there")) << answer;
    serving.get();
  }
}

TEST(Admission, MissingRanksAreNamedToAllArrivedRanks) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 4, 2);
  auto two = rank(own, 2, 4);
  const Result<std::string> refused = sender(own, hello(1, 5)).receive_frame(in_time());
  const Result<Members> met = zero.get();
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::Unavailable);
  EXPECT_THAT(met.error().message(),
              HasSubstr("rendezvous: 4711-0-0: only 2 of 4 ranks arrived within 2 s; missing: 1, 3"));
  EXPECT_THAT(met.error().reason, HasSubstr("rejected: rank 1 on far"));
  const Result<Admission> told = two.get();
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().reason, met.error().reason);
}

TEST(Admission, WaitsAgainForARankThatDisconnected) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 3);
  {
    Socket first = sender(own, hello(1, 3));
    ASSERT_TRUE(first.receive_frame(in_time()));
  }
  auto two = rank(own, 2, 3);
  auto again = rank(own, 1, 3);  // refused as long as rank 0 has not seen the first one leave
  EXPECT_TRUE(zero.get());
  EXPECT_TRUE(two.get());
  EXPECT_TRUE(again.get());
}

TEST(Admission, DisconnectionOfRank0IsReportedImmediately) {
  auto own = std::optional<Listener>(rank_0_listener());
  auto one = rank(*own, 1, 2);
  Result<Socket> socket = accepted_as_rank_0(*own);
  (void)socket->receive_frame(in_time());
  ASSERT_TRUE(socket->send_frame("here\n0123456789abcdef", in_time()));
  *socket = Socket();
  const Result<Admission> admission = one.get();
  ASSERT_FALSE(admission);
  EXPECT_THAT(admission.error().reason, HasSubstr("rank 0 of 4711-0-0 is gone"));
}

TEST(Admission, ListenerStaysBlockingAndOpenAfterwards) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2);
  EXPECT_TRUE(rank(own, 1, 2).get());
  EXPECT_TRUE(zero.get());
  EXPECT_EQ(fcntl(own.descriptor(), F_GETFL) & O_NONBLOCK, 0);
  const Socket next(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
  EXPECT_TRUE(accept_one(own.descriptor(), in_time())) << "waits for the store";
}

TEST(Admission, RejectedLocationIsTheReasonWhenNoOtherIsFound) {
  const auto other = join([] { return Locations{{}, "belongs to user 1234, not to you"}; }, {kKey.name, 1, 2}, 0.1);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("rendezvous.folder: /x: belongs to user 1234, not to you"));
}

}  // namespace
}  // namespace rollcall::rendezvous
