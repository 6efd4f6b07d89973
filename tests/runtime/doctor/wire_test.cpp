#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <stdexcept>
#include <thread>

#include "runtime/doctor/wire/candidates.h"
#include "runtime/doctor/wire/client.h"
#include "runtime/doctor/wire/message.h"
#include "runtime/doctor/wire/server.h"
#include "runtime/settings/launch_settings.h"
#include "tests/support/crowd.h"
#include "tests/support/doctor_world.h"
#include "tests/support/plain_peer.h"

namespace rollcall::doctor {
namespace {

using rendezvous::FrameBuffer;
using rendezvous::Hello;
using rendezvous::Listener;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(30); }

Listener listener() {
  Result<Listener> made = Listener::on_all_addresses(0);
  EXPECT_TRUE(made);
  return *std::move(made);
}

rendezvous::Secret of_step(const std::string& name = "7.0.0") { return rendezvous::Secret::of("drawn", name); }

/// A connection to `port` from a peer with this secret, before any frame is sent.
Socket connected_as(const rendezvous::Secret& secret, std::uint16_t port) {
  const rendezvous::Attempt attempt = rendezvous::connect_once({"127.0.0.1", port}, soon());
  EXPECT_GE(attempt.descriptor, 0) << attempt.reason;
  return {attempt.descriptor, rendezvous::End::Client, {secret, kDoctor}};
}

/// An unencrypted connection to `port`, before any byte is sent.
Socket connected(std::uint16_t port) {
  const rendezvous::Attempt attempt = rendezvous::connect_once({"127.0.0.1", port}, soon());
  EXPECT_GE(attempt.descriptor, 0) << attempt.reason;
  return Socket(attempt.descriptor);
}

/// A rank that greets, reports `text` and then answers every request with the request's index.
std::thread client(std::uint16_t port, std::uint32_t rank, const std::string& text) {
  return std::thread([=] {
    Candidates candidates;
    candidates.expected = {"127.0.0.1", port};
    HeadFacts head;
    Result<Socket> rank_0 = find_rank_0(
        candidates, of_step(), {.rank = rank}, [] { return ""; }, soon(), head);
    ASSERT_TRUE(rank_0) << rank_0.error().message();
    EXPECT_EQ(head.error, "");
    ASSERT_TRUE(rank_0->send_frame(text, soon()));
    const Result<void> served = serve(
        *rank_0, 4, [](const Request& request) { return std::to_string(request.index); }, soon());
    EXPECT_TRUE(served);
  });
}

std::vector<Listener> one(Listener made) {
  std::vector<Listener> listeners;
  listeners.push_back(std::move(made));
  return listeners;
}

TEST(DoctorFrame, IsUnchangedWhenItArrivesInPieces) {
  FrameBuffer speaker;
  for (const std::string& text : {std::string("hello"), std::string(), std::string(70'000, 'x')}) {
    speaker.queue(text);
  }
  const std::string bytes(speaker.outgoing());
  FrameBuffer buffer;
  std::vector<std::size_t> lengths;
  for (const char byte : bytes) {
    buffer.append({&byte, 1});
    while (const std::optional<std::string> text = buffer.next()) {
      lengths.push_back(text->size());
    }
  }
  EXPECT_THAT(lengths, ElementsAre(5, 0, 70'000));
  EXPECT_FALSE(buffer.broken());
}

TEST(DoctorFrame, MillionsOfEmptyFramesAreReadInLinearTime) {
  FrameBuffer buffer;
  buffer.append(std::string(std::size_t{16} << 20, '\0'));  // each taken from the front: hours of copying
  std::size_t frames = 0;
  while (buffer.next()) {
    ++frames;
  }
  EXPECT_EQ(frames, std::size_t{4} << 20);
  EXPECT_EQ(buffer.size(), 0U);
  buffer.append(encode_frame("and on it goes"));
  EXPECT_EQ(buffer.next(), "and on it goes");
}

TEST(DoctorFrame, RefusesBytesOfAnotherProtocol) {
  FrameBuffer buffer;
  buffer.append("GET / HTTP/1.1\r\n");
  EXPECT_TRUE(buffer.broken());
  EXPECT_FALSE(buffer.next());
}

TEST(DoctorFacts, AreEqualAfterSerialiseAndParse) {
  TaskFacts facts = healthy_world().tasks[2];
  facts.warnings = {"a \"quoted\"\nline"};
  facts.node.interface_uses[0].error = std::string("no utf8: \xff");
  const Result<TaskFacts> back = task_facts_from_json(to_json_text(facts));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(to_json_text(*back), to_json_text(facts));
  EXPECT_EQ(back->node.names.head[0].addresses[0].text, "10.78.0.1");
  EXPECT_EQ(back->locked_memory, ~std::uint64_t{0});
}

TEST(DoctorFacts, MalformedTextIsAnError) {
  EXPECT_FALSE(task_facts_from_json("[1]"));
  EXPECT_FALSE(task_facts_from_json("{\"rank\": \"one\"}"));
  EXPECT_FALSE(task_facts_from_json("{"));
}

TEST(DoctorMessage, RequestIsUnchangedAfterSerialiseAndParse) {
  const Request request{Request::What::Connect, 3, 4, {{"10.0.0.1", 4711}}};
  const std::optional<Request> back = parse_request(to_text(request), 4);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->what, Request::What::Connect);
  EXPECT_EQ(back->neighbours[0].port, 4711);
  EXPECT_FALSE(parse_request("{}", 4));
  EXPECT_EQ(parse_benchmark("?").error, "a rank's answer cannot be read");
}

TEST(DoctorMessage, RejectsAnImpossibleRingSizeOrIndex) {
  const auto is_request = [](std::uint32_t index, std::uint32_t size) {
    return parse_request(to_text(Request{Request::What::Measure, index, size, {}}), 4).has_value();
  };
  EXPECT_TRUE(is_request(0, 2));
  EXPECT_TRUE(is_request(3, 4));
  EXPECT_FALSE(is_request(0, 0)) << "it would be divided by";
  EXPECT_FALSE(is_request(0, 1));
  EXPECT_FALSE(is_request(2, 2));
  EXPECT_FALSE(is_request(0, 5));
  EXPECT_FALSE(is_request(0, 2'000'000'000)) << "gigabytes would be allocated";
  EXPECT_FALSE(parse_request(R"({"what":17,"index":0,"size":0,"neighbours":[]})", 4));
}

TEST(DoctorClient, FailsOnAnInvalidRequest) {
  Listener own = listener();
  Socket rank_0 = connected(own.port());
  Result<Socket> member = accept_one(own.descriptor(), soon());
  ASSERT_TRUE(member);
  ASSERT_TRUE(rank_0.send_frame(to_text(Request{Request::What::Measure, 0, 0, {}}), soon()));
  const Result<void> served = serve(
      *member, 4, [](const Request&) -> std::string { throw std::logic_error("answered"); }, soon());
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().kind, ErrorKind::Mismatch);
}

TEST(DoctorServer, GathersReportsQueriesRanksAndReleasesThem) {
  Listener own = listener();
  const std::uint16_t port = own.port();
  Server server(one(std::move(own)), of_step(), 3);
  std::thread first = client(port, 1, "one");
  std::thread second = client(port, 2, "two");
  EXPECT_THAT(server.gather(soon()), ElementsAre(Pair(1, "one"), Pair(2, "two")));
  bool meanwhile = false;
  const auto answers = server.ask({{1, to_text(Request{Request::What::ReadClock, 11, 0, {}})},
                                   {2, to_text(Request{Request::What::ReadClock, 22, 0, {}})}},
                                  soon(), [&] { meanwhile = true; });
  EXPECT_THAT(answers, ElementsAre(Pair(1, "11"), Pair(2, "22")));
  EXPECT_TRUE(meanwhile);
  server.send({{1, to_text(Request{})}, {2, to_text(Request{})}}, soon());
  first.join();
  second.join();
  EXPECT_THAT(server.losses(), IsEmpty());
}

TEST(DoctorServer, DisconnectsAPeerWhoseGreetingExceedsTheLimit) {
  Listener own = listener();
  const std::uint16_t port = own.port();
  Server server(one(std::move(own)), of_step(), 2);
  std::thread others([port] {
    Socket endless = connected_as(of_step(), port);
    endless.frames().queue(std::string(1 << 20, 'x'));
    const Result<std::string> answer = endless.receive_frame(Clock::now() + std::chrono::seconds(4));
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().reason, testing::Not(HasSubstr("in time")));
    client(port, 1, "one").join();
  });
  EXPECT_THAT(server.gather(soon()), ElementsAre(Pair(1, "one")));
  server.send({{1, to_text(Request{})}}, soon());
  others.join();
}

TEST(DoctorServer, AcceptsOnlyRanksOfItsOwnStep) {
  Listener own = listener();
  const std::uint16_t port = own.port();
  Server server(one(std::move(own)), of_step(), 2);
  Socket silent = connected(port);
  Socket browser = connected(port);
  ASSERT_TRUE(transfer(browser, std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n", 18)), browser, {}, soon()));
  Socket other_step = connected_as(of_step("7.1.0"), port);
  other_step.frames().queue(to_text(Hello{.rank = 1}));
  Socket no_such_rank = connected_as(of_step(), port);
  no_such_rank.frames().queue(to_text(Hello{.rank = 2}));
  ASSERT_TRUE(other_step.flush() && no_such_rank.flush());
  std::thread strangers([&] {
    EXPECT_FALSE(other_step.receive_frame(soon()));
    EXPECT_FALSE(no_such_rank.receive_frame(soon()));
  });
  std::thread right([&] {  // after them: the server would not wait for their answers
    strangers.join();
    client(port, 1, "one").join();
  });
  EXPECT_THAT(server.gather(soon()), ElementsAre(Pair(1, "one")));
  server.send({{1, to_text(Request{})}}, soon());
  right.join();
  EXPECT_THAT(server.last_rejected(), HasSubstr("does not know the secret"));
}

TEST(DoctorServer, FiveThousandForeignConnectionsDoNotBlockARankOrUseMuchMemory) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may open so many files everywhere";
  }
  Listener own = listener();
  const std::uint16_t port = own.port();
  const std::size_t before = resident_kilobytes();
  const Crowd crowd(port, 5000);
  Server server(one(std::move(own)), of_step(), 2);
  std::thread right([&] {
    EXPECT_TRUE(crowd.await());
    client(port, 1, "one").join();
  });
  EXPECT_THAT(server.gather(soon()), ElementsAre(Pair(1, "one")));
  EXPECT_LT(resident_kilobytes(), before + 16'384);
  server.send({{1, to_text(Request{})}}, soon());
  right.join();
}

TEST(DoctorServer, StopsWaitingAtTheDeadlineAndSoonAfterALoss) {
  Listener own = listener();
  const std::uint16_t port = own.port();
  Server server(one(std::move(own)), of_step(), 2);
  EXPECT_THAT(server.gather(Clock::now() + std::chrono::milliseconds(50)), IsEmpty());
  std::thread dying([port] {
    Socket rank = connected_as(of_step(), port);
    EXPECT_TRUE(rank.send_frame(to_text(Hello{.rank = 1}), soon()) && rank.receive_frame(soon()));
  });
  EXPECT_THAT(server.gather(Clock::now() + std::chrono::hours(1)), IsEmpty());
  dying.join();
  EXPECT_THAT(server.losses().at(1), HasSubstr("its connection ended"));
}

TEST(DoctorServer, ReportsARankThatDiesDuringARequest) {
  Listener own = listener();
  const std::uint16_t port = own.port();
  Server server(one(std::move(own)), of_step(), 2);
  Socket dying = connected_as(of_step(), port);
  std::thread reporting([&] {
    EXPECT_TRUE(dying.send_frame(to_text(Hello{.rank = 1}), soon()));
    EXPECT_TRUE(dying.send_frame("one", soon()));
  });
  EXPECT_THAT(server.gather(soon()), ElementsAre(Pair(1, "one")));
  reporting.join();
  const auto answers = server.ask({{1, to_text(Request{})}}, soon(), [&] { dying = Socket(); });
  EXPECT_THAT(answers, IsEmpty());
  EXPECT_TRUE(server.losses().contains(1));
}

TEST(DoctorClient, UsesTheSecondPortAndReportsWhyTheFirstFailed) {
  Listener own = listener();
  Candidates candidates;
  candidates.second_port = own.port();
  candidates.hosts = {"127.0.0.1"};
  const Listener occupied = listener();  // accepts connections and says nothing
  candidates.expected = {"127.0.0.1", occupied.port()};
  Server server(one(std::move(own)), of_step(), 2);
  std::future<HeadFacts> head = std::async(std::launch::async, [&] {
    HeadFacts found;
    Result<Socket> rank_0 = find_rank_0(
        candidates, of_step(), {.rank = 1}, [] { return ""; }, soon(), found);
    EXPECT_TRUE(rank_0 && rank_0->send_frame("one", soon()));
    return found;
  });
  EXPECT_THAT(server.gather(soon()), ElementsAre(Pair(1, "one")));
  const HeadFacts found = head.get();
  EXPECT_THAT(found.error, HasSubstr("another program listens there"));
  EXPECT_EQ(found.used, "127.0.0.1:" + std::to_string(candidates.second_port));
}

TEST(DoctorClient, SendsNothingToAListenerOfAnotherUserOnThisHost) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can be another user";
  }
  ASSERT_EQ(seteuid(4711), 0);
  const Listener foreign = listener();  // a socket is of the user who made it
  ASSERT_EQ(seteuid(0), 0);
  Candidates candidates;
  candidates.expected = {"127.0.0.1", foreign.port()};
  HeadFacts head;
  const Result<Socket> not_found = find_rank_0(
      candidates, of_step(), {.rank = 1}, [] { return ""; }, Clock::now() + std::chrono::milliseconds(200), head);
  ASSERT_FALSE(not_found);
  EXPECT_THAT(not_found.error().reason, HasSubstr("a process of user 4711 listens there, which cannot be rank 0"));
  Result<Socket> asked = accept_one(foreign.descriptor(), soon());
  ASSERT_TRUE(asked);
  EXPECT_FALSE(asked->receive_frame(soon()));
}

TEST(DoctorClient, RequestsAnotherHostOnceWhenNoneWorks) {
  Listener own = listener();
  Candidates candidates;
  candidates.second_port = own.port();
  Server server(one(std::move(own)), of_step(), 2);
  std::thread guest_thread([&] {
    HeadFacts found;
    const Result<Socket> rank_0 = find_rank_0(
        candidates, of_step(), {.rank = 1}, [] { return "127.0.0.1"; }, soon(), found);
    EXPECT_TRUE(rank_0);
    EXPECT_EQ(found.error, "the location of rank 0 is unknown");
  });
  EXPECT_THAT(server.gather(soon()), IsEmpty());  // the client found it, and left without a report
  guest_thread.join();
}

TEST(DoctorClient, GivesUpAtTheDeadline) {
  Candidates candidates;
  candidates.expected = {"127.0.0.1", 1};
  HeadFacts head;
  const Result<Socket> not_found = find_rank_0(
      candidates, of_step(), {.rank = 1}, [] { return ""; }, Clock::now() + std::chrono::milliseconds(100), head);
  ASSERT_FALSE(not_found);
  EXPECT_THAT(not_found.error().message(), HasSubstr("127.0.0.1:1: rank 0 does not answer"));
}

const Error kUnresolved = fail("host.template", "jwb0001x", "does not resolve", "another");

TEST(DoctorCandidates, AreTheSameOnEveryNodeAndNameTheExpectedEndpointFirst) {
  const settings::Settings settings(settings::launch_table());
  const job::JobFacts facts = healthy_world().step;
  network::NetworkView network;
  network.head_names = {{"jwb0001i", {{"10.78.0.1", true, false, false}, {"fe80::1", false, false, true}}, ""}};
  network.ephemeral_ports = {.range = {32768, 60999}};
  resolve::EnvPatch patch;
  patch.changes = {{"MASTER_ADDR", "jwb0001i", resolve::Action::Set, "", ""},
                   {"MASTER_PORT", "29500", resolve::Action::Set, "", ""}};
  const Candidates candidates = candidates_of(facts, settings, network, Environment(), patch);
  ASSERT_TRUE(candidates.expected);
  EXPECT_EQ(rendezvous::to_text(*candidates.expected), "jwb0001i:29500");
  EXPECT_THAT(candidates.hosts, ElementsAre("10.78.0.1", "jwb0001"));  // link-local addresses do not cross nodes
  EXPECT_NE(candidates.second_port, 29500);
  const Candidates unresolved = candidates_of(facts, settings, network, Environment(), kUnresolved);
  ASSERT_TRUE(unresolved.expected);
  EXPECT_EQ(unresolved.second_port, candidates.second_port);
  EXPECT_NE(unresolved.second_port, unresolved.expected->port);
  EXPECT_EQ(rendezvous::to_text(endpoints_of(candidates).front()), "jwb0001i:29500");
}

TEST(DoctorCandidates, DoNotResolveAFailedNameAgain) {
  const settings::Settings settings(settings::launch_table());
  network::NetworkView network;
  network.head_names = {{"jwb0001x", {}, "Name or service not known"}, {"jwb0001", {}, "Name or service not known"}};
  network.ephemeral_ports = {.range = {32768, 60999}};
  const Candidates candidates = candidates_of(healthy_world().step, settings, network, Environment(), kUnresolved);
  ASSERT_TRUE(candidates.expected);
  EXPECT_EQ(candidates.expected->host, "jwb0001x");
  EXPECT_EQ(candidates.expected_error, "Name or service not known");
  EXPECT_THAT(endpoints_of(candidates), IsEmpty());
}

}  // namespace
}  // namespace rollcall::doctor
