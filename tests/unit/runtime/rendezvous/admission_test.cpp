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
#include "runtime/rendezvous/socket.h"

namespace rollcall::rendezvous {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

const WorldKey kKey{"4711-0-0", "0123456789abcdef"};

Clock::time_point in_time() { return Clock::now() + seconds(30); }

Listener rank_0_listener() {
  Result<Listener> made = Listener::on_all_addresses(0);
  EXPECT_TRUE(made);
  return *std::move(made);
}

PlaceSource at(const Listener& rank_0, const std::string& nonce = "") {
  return [place = Place{{"127.0.0.1", rank_0.port()}, nonce}] { return Places{{place}, ""}; };
}

Result<Admission> come(const PlaceSource& source, const Newcomer& newcomer, double timeout = 30) {
  return be_admitted(source, newcomer, std::chrono::duration<double>(timeout), "rendezvous.folder", "/x");
}

/// Rank 0 of a world of `size`, on a thread.
std::future<Result<void>> rank_0(const Listener& own, std::uint32_t size, double timeout = 30,
                                 Nonce nonce = Nonce::ToldHere) {
  return std::async(std::launch::async, [&own, size, timeout, nonce] {
    return admit_others(own, kKey, size, std::chrono::duration<double>(timeout), nonce);
  });
}

std::future<Result<Admission>> rank(const Listener& zero, std::uint32_t number, std::uint32_t size) {
  return std::async(std::launch::async, [&zero, number, size] { return come(at(zero), {kKey.name, number, size}); });
}

/// A connection on which `text` was said, as a frame.
Socket saying(const Listener& own, const std::string& text) {
  Socket socket(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
  EXPECT_TRUE(socket.send_frame(text, in_time()));
  return socket;
}

std::string hello(const std::string& world, const std::string& nonce, int number, int size) {
  return "rollcall meeting 1\n" + world + "\n" + nonce + "\n" + std::to_string(number) + "\n" + std::to_string(size) +
         "\nfar";
}

TEST(Admission, AllGoOnTogetherWithRankZerosKey) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 3);
  auto one = rank(own, 1, 3);
  auto two = rank(own, 2, 3);
  EXPECT_TRUE(zero.get());
  for (auto* other : {&one, &two}) {
    const Result<Admission> admission = other->get();
    ASSERT_TRUE(admission) << admission.error().message();
    EXPECT_EQ(to_text(admission->key), "4711-0-0-0123456789abcdef");
    EXPECT_EQ(admission->endpoint.port, own.port());
  }
}

TEST(Admission, ARankOfAnotherWorldIsRefusedByBothNames) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2);
  const auto stranger = come(at(own), {"4712-0-0", 1, 2}, 1);
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().exit_code, ExitCode::Unavailable);
  EXPECT_THAT(stranger.error().reason, HasSubstr("rank 0 of another world listens there: 4711-0-0 on "))
      << stranger.error().message();
  EXPECT_THAT(stranger.error().reason, HasSubstr("not 4712-0-0"));
  EXPECT_TRUE(rank(own, 1, 2).get());
  EXPECT_TRUE(zero.get()) << "the stranger does not keep the world from meeting";
}

TEST(Admission, WhoReadTheNonceOfAnEarlierRunIsRefused) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2);
  const auto late = come(at(own, "fedcba9876543210"), {kKey.name, 1, 2}, 1);
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().reason, HasSubstr("rank 0 of another start of 4711-0-0 listens there"));
  EXPECT_TRUE(come(at(own, kKey.nonce), {kKey.name, 1, 2}));
  EXPECT_TRUE(zero.get());
}

TEST(Admission, TheNonceIsNotToldToWhoShouldKnowIt) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2, 30, Nonce::KnownToRanks);
  Socket stranger = saying(own, hello(kKey.name, "", 1, 2));
  const Result<std::string> answer = stranger.receive_frame(in_time());
  ASSERT_TRUE(answer);
  EXPECT_THAT(*answer, testing::StartsWith("refused\n"));
  EXPECT_EQ(answer->find(kKey.nonce), std::string::npos);
  EXPECT_TRUE(come(at(own, kKey.nonce), {kKey.name, 1, 2}));
  EXPECT_TRUE(zero.get());
}

TEST(Admission, AMemberThatTalksOnIsDroppedAndAwaitedAgain) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2 + 1);
  Socket talks = saying(own, hello(kKey.name, "", 1, 3));
  ASSERT_TRUE(talks.receive_frame(in_time()));
  ASSERT_TRUE(talks.send_frame("more", in_time()));
  EXPECT_FALSE(talks.receive_frame(in_time()));  // closed, not "begin"
  auto one = rank(own, 1, 3);
  auto two = rank(own, 2, 3);
  EXPECT_TRUE(one.get());
  EXPECT_TRUE(two.get());
  EXPECT_TRUE(zero.get());
}

TEST(Admission, AMemberWhoseWordsCameWithItsHelloIsDroppedToo) {
  const Listener own = rank_0_listener();
  Socket talks = saying(own, hello(kKey.name, "", 1, 2));
  ASSERT_TRUE(talks.send_frame("more", in_time()));  // both are there before rank 0 looks
  auto zero = rank_0(own, 2);
  EXPECT_TRUE(talks.receive_frame(in_time()));
  EXPECT_FALSE(talks.receive_frame(in_time()));
  EXPECT_TRUE(rank(own, 1, 2).get());
  EXPECT_TRUE(zero.get());
}

TEST(Admission, ARankThatCannotBeOfThisWorldIsRefused) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 3);
  const Socket one = saying(own, hello(kKey.name, "", 1, 3));
  for (const auto& [number, size, reason] :
       {std::tuple{2, 4, "rank 2 of 4 is none of the 3 ranks"}, std::tuple{3, 3, "rank 3 of 3 is none"},
        std::tuple{0, 3, "rank 0 of 3 is none"}, std::tuple{1, 3, "rank 1 of 4711-0-0 is there already, from far"}}) {
    const Result<std::string> answer = saying(own, hello(kKey.name, "", number, size)).receive_frame(in_time());
    ASSERT_TRUE(answer);
    EXPECT_THAT(*answer, AllOf(testing::StartsWith("refused\n"), HasSubstr(reason)));
  }
  auto two = rank(own, 2, 3);
  EXPECT_TRUE(zero.get());
  EXPECT_TRUE(two.get());
}

TEST(Admission, StrangersThatSayAnythingElseDoNotDisturb) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2);
  const Socket silent(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
  Socket browser(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
  ASSERT_TRUE(transfer(browser, std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n", 18)), browser, {}, in_time()));
  EXPECT_FALSE(browser.receive_frame(in_time())) << "is hung up on";
  EXPECT_FALSE(saying(own, "rollcall meeting 2\nx").receive_frame(in_time()));
  EXPECT_FALSE(saying(own, "").receive_frame(in_time()));
  EXPECT_TRUE(rank(own, 1, 2).get());
  EXPECT_TRUE(zero.get());
}

TEST(Admission, WhoTalksWithoutEndIsClosedBeforeItTakesMemory) {
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
constexpr const char* kWhyNot = "the sanitizers need file descriptors of their own";

TEST(Admission, SilentConnectionsMakeRoomForRanks) {
  if (!kCanLackDescriptors) {
    GTEST_SKIP() << kWhyNot;
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Listener own = rank_0_listener();
  std::vector<Socket> silent;
  for (int i = 0; i < 40; ++i) {
    silent.emplace_back(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
    ASSERT_TRUE(silent.back().is_open());
  }
  Socket one = saying(own, hello(kKey.name, "", 1, 2));
  const int next = ::dup(0);  // what is open now stays so, and 20 more may be
  ::close(next);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 20;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const Result<void> met = admit_others(own, kKey, 2, seconds(30), Nonce::ToldHere);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(met) << met.error().message();
}

TEST(Admission, WhoHasSpokenIsHeardBeforeAnybodyIsClosedForWantOfDescriptors) {
  if (!kCanLackDescriptors) {
    GTEST_SKIP() << kWhyNot;
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Listener own = rank_0_listener();
  Socket one = saying(own, hello(kKey.name, "", 1, 2));  // the first in the queue
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
  const Result<void> met = admit_others(own, kKey, 2, seconds(3), Nonce::ToldHere);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(met) << met.error().message();
}

TEST(Admission, OtherPlacesThatAreSilentDoNotHoldUpTheFirst) {
  std::uint16_t port = 0;
  {
    const Listener free = rank_0_listener();
    port = free.port();
  }
  std::vector<Listener> silent;
  std::vector<Place> places{{{"127.0.0.1", port}, ""}};
  for (int i = 0; i < 8; ++i) {
    silent.push_back(rank_0_listener());
    places.push_back({{"127.0.0.1", silent.back().port()}, ""});
  }
  bool asked = false;
  std::optional<Listener> own;
  std::future<Result<void>> zero;
  const PlaceSource source = [&] {
    if (std::exchange(asked, true) && !own) {  // rank 0 is one round late
      Result<Listener> made = Listener::on_all_addresses(port);
      EXPECT_TRUE(made) << made.error().message();
      own = *std::move(made);
      zero = rank_0(*own, 2);
    }
    return Places{places, ""};
  };
  EXPECT_TRUE(come(source, {kKey.name, 1, 2}, 4));
  EXPECT_TRUE(zero.get());
}

TEST(Admission, OnThisHostAnotherUsersListenerIsNotAsked) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can be another user";
  }
  constexpr uid_t kStranger = 4711;
  ASSERT_EQ(seteuid(kStranger), 0);
  const Listener foreign = rank_0_listener();  // a socket is of the user who made it
  ASSERT_EQ(seteuid(0), 0);
  const auto other = come(at(foreign), {kKey.name, 1, 2}, 0.2);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().reason, HasSubstr("a process of user 4711 listens there, which cannot be rank 0"));
  Result<Socket> asked = accept_one(foreign.descriptor(), in_time());
  ASSERT_TRUE(asked);
  EXPECT_FALSE(asked->receive_frame(in_time())) << "told neither the world's name nor anything else";
}

TEST(Admission, AListenerThatIsNoRankZeroIsNotBelieved) {
  const Listener foreign = rank_0_listener();
  for (const std::string answer : {"", "here", "here\n4711-0-0\n", "here\n4712-0-0\nabc", "HTTP/1.1 400"}) {
    auto serving = std::async(std::launch::async, [&] {
      Result<Socket> socket = accept_one(foreign.descriptor(), in_time());
      (void)socket->receive_frame(in_time());
      (void)socket->send_frame(answer, in_time());
    });
    // One round is enough: afterwards nobody accepts, so that a second would only wait.
    bool asked = false;
    const PlaceSource once = [&] { return std::exchange(asked, true) ? Places{} : at(foreign)(); };
    const auto other = come(once, {kKey.name, 1, 2}, 0.5);
    ASSERT_FALSE(other) << answer;
    EXPECT_THAT(other.error().reason, HasSubstr("something else listens there")) << answer;
    serving.get();
  }
}

TEST(Admission, WhoIsMissingIsNamedToAllThatCame) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 4, 2);
  auto two = rank(own, 2, 4);
  const Result<std::string> refused = saying(own, hello("4712-3-0", "", 1, 4)).receive_frame(in_time());
  const Result<void> met = zero.get();
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().exit_code, ExitCode::Unavailable);
  EXPECT_THAT(met.error().message(),
              HasSubstr("rendezvous: 4711-0-0: only 2 of 4 ranks came within 2 s: without 1, 3"));
  EXPECT_THAT(met.error().reason, HasSubstr("refused: rank 1 of 4712-3-0 on far"));
  const Result<Admission> told = two.get();
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().reason, met.error().reason);
}

TEST(Admission, ARankThatLeftIsAwaitedAgain) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 3);
  {
    Socket first = saying(own, hello(kKey.name, "", 1, 3));
    ASSERT_TRUE(first.receive_frame(in_time()));
  }
  auto two = rank(own, 2, 3);
  auto again = rank(own, 1, 3);  // refused as long as rank 0 has not seen the first one leave
  EXPECT_TRUE(zero.get());
  EXPECT_TRUE(two.get());
  EXPECT_TRUE(again.get());
}

TEST(Admission, RankZerosDeathIsToldAtOnce) {
  auto own = std::optional<Listener>(rank_0_listener());
  auto one = rank(*own, 1, 2);
  Result<Socket> socket = accept_one(own->descriptor(), in_time());
  (void)socket->receive_frame(in_time());
  ASSERT_TRUE(socket->send_frame("here\n4711-0-0\n0123456789abcdef", in_time()));
  *socket = Socket();
  const Result<Admission> admission = one.get();
  ASSERT_FALSE(admission);
  EXPECT_THAT(admission.error().reason, HasSubstr("rank 0 of 4711-0-0 is gone"));
}

TEST(Admission, TheListenerGoesOnAsItWas) {
  const Listener own = rank_0_listener();
  auto zero = rank_0(own, 2);
  EXPECT_TRUE(rank(own, 1, 2).get());
  EXPECT_TRUE(zero.get());
  EXPECT_EQ(fcntl(own.descriptor(), F_GETFL) & O_NONBLOCK, 0);
  const Socket next(connect_once({"127.0.0.1", own.port()}, in_time()).descriptor);
  EXPECT_TRUE(accept_one(own.descriptor(), in_time())) << "waits for the store";
}

TEST(Admission, WhatIsNotBelievedIsTheReasonWhereNothingElseIsFound) {
  const auto other = come([] { return Places{{}, "belongs to user 1234, not to you"}; }, {kKey.name, 1, 2}, 0.1);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("rendezvous.folder: /x: belongs to user 1234, not to you"));
}

}  // namespace
}  // namespace rollcall::rendezvous
