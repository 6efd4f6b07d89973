// Sealed frames between two ends that may not share the secret, and changes of their bytes in transit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rendezvous/frames.h"
#include "runtime/rendezvous/secret.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

Seal sealed_with(const std::string& drawn = "drawn", const std::string& purpose = "test") {
  return {Secret::of(drawn, "world"), purpose};
}

/// All that `from` has to send.
std::string sent_by(FrameBuffer& from) {
  std::string bytes(from.outgoing());
  from.sent(bytes.size());
  return bytes;
}

/// All complete frames that arrived at `at`.
std::vector<std::string> received_at(FrameBuffer& at) {
  std::vector<std::string> texts;
  while (std::optional<std::string> text = at.next()) {
    texts.push_back(*std::move(text));
  }
  return texts;
}

struct Ends {
  FrameBuffer client{End::Client, sealed_with()};
  FrameBuffer server{End::Server, sealed_with()};

  /// Both openings have come.
  void open() {
    server.append(sent_by(client));
    client.append(sent_by(server));
  }
};

TEST(Secret, DependsOnTheNameAndTheRandomPart) {
  EXPECT_EQ(Secret::of("drawn", "1.0.0"), Secret::of("drawn", "1.0.0"));
  EXPECT_FALSE(Secret::of("drawn", "1.0.0") == Secret::of("drawn", "1.1.0"));
  EXPECT_FALSE(Secret::of("drawn", "1.0.0") == Secret::of("drown", "1.0.0"));
  EXPECT_FALSE(Secret::of("drawn1", ".0.0") == Secret::of("drawn", "1.0.0"));
  EXPECT_THAT(draw_secret(), SizeIs(64));
  EXPECT_NE(draw_secret(), draw_secret());
}

TEST(SealedFrames, BothEndsReceiveTheSentFrames) {
  Ends ends;
  ends.client.queue("before there are keys");
  EXPECT_THAT(ends.client.outgoing(), SizeIs(Sealing::kOpening)) << "the opening alone";
  EXPECT_THAT(ends.server.outgoing(), IsEmpty()) << "who says nothing hears nothing";
  EXPECT_GT(ends.client.unsent(), Sealing::kOpening);
  ends.open();
  EXPECT_FALSE(ends.server.proven());
  ends.client.queue(std::string(100'000, 'x'));
  ends.client.queue("");
  ends.server.append(sent_by(ends.client));
  EXPECT_THAT(received_at(ends.server), ElementsAre("before there are keys", std::string(100'000, 'x'), ""));
  EXPECT_TRUE(ends.server.proven());
  EXPECT_FALSE(ends.client.proven());
  ends.server.queue("answer");
  ends.client.append(sent_by(ends.server));
  EXPECT_THAT(received_at(ends.client), ElementsAre("answer"));
  EXPECT_TRUE(ends.client.proven());
  EXPECT_EQ(ends.client.unsent() + ends.server.unsent() + ends.client.size() + ends.server.size(), 0U);
}

TEST(SealedFrames, PlainTextIsNotVisibleOnTheWire) {
  Ends ends;
  ends.open();
  ends.client.queue("plain text");
  EXPECT_THAT(std::string(ends.client.outgoing()), Not(HasSubstr("plain")));
}

TEST(SealedFrames, AreReassembledFromAnyPieces) {
  Ends ends;
  std::vector<std::string> received;
  const auto byte_by_byte = [&](const std::string& bytes, FrameBuffer& to) {
    for (const char byte : bytes) {
      to.append({&byte, 1});
      for (std::string& text : received_at(to)) {
        received.push_back(std::move(text));
      }
    }
  };
  byte_by_byte(sent_by(ends.client), ends.server);
  byte_by_byte(sent_by(ends.server), ends.client);
  ends.client.queue("one");
  ends.client.queue("two");
  byte_by_byte(sent_by(ends.client), ends.server);
  EXPECT_THAT(received, ElementsAre("one", "two"));
}

TEST(SealedFrames, RejectsFramesSealedWithAnotherSecretOrPurpose) {
  for (const Seal& other :
       {sealed_with("another"), sealed_with("drawn", "other"), Seal{Secret::of("drawn", "other world"), "test"}}) {
    FrameBuffer client(End::Client, other);
    FrameBuffer server(End::Server, sealed_with());
    server.append(sent_by(client));
    client.append(sent_by(server));
    client.queue("let me in");
    server.queue("nor may this be received");
    server.append(sent_by(client));
    client.append(sent_by(server));
    EXPECT_THAT(received_at(server), IsEmpty());
    EXPECT_THAT(received_at(client), IsEmpty());
    EXPECT_TRUE(server.broken() && client.broken());
    EXPECT_FALSE(server.proven() || client.proven());
  }
}

TEST(SealedFrames, RejectsFramesReplayedFromAnotherConnection) {
  Ends first;
  const std::string opening = sent_by(first.client);
  first.server.append(opening);
  first.client.append(sent_by(first.server));
  first.client.queue("let me in");
  const std::string proof = sent_by(first.client);
  FrameBuffer again(End::Server, sealed_with());
  again.append(opening + proof);
  EXPECT_THAT(received_at(again), IsEmpty());
  EXPECT_TRUE(again.broken());
}

TEST(SealedFrames, RejectsFramesReflectedToTheirSender) {
  Ends ends;
  FrameBuffer& client = ends.client;
  client.append(sent_by(client));
  client.queue("let me in");
  client.append(sent_by(client));
  EXPECT_THAT(received_at(client), IsEmpty());
  EXPECT_TRUE(client.broken());

  Ends others;
  others.open();
  others.server.queue("answer");
  others.server.append(sent_by(others.server));
  EXPECT_THAT(received_at(others.server), IsEmpty());
  EXPECT_TRUE(others.server.broken());
}

/// The frames of one direction, one by one.
std::vector<std::string> frames_of(Ends& ends) {
  ends.open();
  std::vector<std::string> frames;
  for (const char* const text : {"one", "two", "three"}) {
    ends.client.queue(text);
    frames.push_back(sent_by(ends.client));
  }
  return frames;
}

TEST(SealedFrames, RejectsRepeatedReorderedAndSkippedFrames) {
  for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{0, 2}, {0, 0}, {0, 1, 1}, {1, 0}, {0, 1, 0}}) {
    Ends ends;
    const std::vector<std::string> frames = frames_of(ends);
    std::vector<std::string> received;
    for (const std::size_t i : order) {
      ends.server.append(frames[i]);
      for (std::string& text : received_at(ends.server)) {
        received.push_back(std::move(text));
      }
    }
    EXPECT_LT(received.size(), order.size());
    EXPECT_TRUE(ends.server.broken());
    ends.server.append(frames[2]);
    EXPECT_THAT(received_at(ends.server), IsEmpty()) << "it does not go on afterwards";
  }
}

TEST(SealedFrames, RejectsAFrameWithAChangedBit) {
  const std::size_t size = [] {
    Ends ends;
    return frames_of(ends)[0].size();
  }();
  for (std::size_t bit = 0; bit < size * 8; ++bit) {
    Ends ends;
    std::string frame = frames_of(ends)[0];
    frame[bit / 8] = static_cast<char>(frame[bit / 8] ^ (1 << (bit % 8)));
    ends.server.append(frame + std::string(64, '\0'));
    EXPECT_THAT(received_at(ends.server), IsEmpty()) << "bit " << bit;
  }
}

TEST(SealedFrames, RejectsATruncatedFrame) {
  Ends ends;
  const std::string frame = frames_of(ends)[0];
  ends.server.append(frame.substr(0, frame.size() - 1));
  EXPECT_THAT(received_at(ends.server), IsEmpty());
  ends.server.append(std::string(1, static_cast<char>(frame.back() + 1)));
  EXPECT_THAT(received_at(ends.server), IsEmpty());
  EXPECT_TRUE(ends.server.broken());
}

TEST(SealedFrames, DetectsAnotherProtocolAtTheFirstByte) {
  FrameBuffer server(End::Server, sealed_with());
  server.append("G");
  EXPECT_TRUE(server.broken());
  server.append("ET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(received_at(server), IsEmpty());
  EXPECT_THAT(server.outgoing(), IsEmpty());
}

TEST(SealedFrames, DetectsAFrameAboveTheLimitByItsLength) {
  Ends ends;
  ends.open();
  ends.client.queue(std::string(64, 'x'));
  ends.server.append(sent_by(ends.client));
  EXPECT_FALSE(ends.server.broken(64));
  EXPECT_TRUE(ends.server.broken(63));
  EXPECT_EQ(ends.server.most(64), ends.server.size()) << "all of the longest first frame";
}

/// Two ends of a connection.
struct Sockets {
  Sockets() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    client = Socket(ends[0], End::Client, sealed_with());
    server = Socket(ends[1], End::Server, sealed_with());
  }
  Socket client;
  Socket server;
};

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(30); }

TEST(SealedSocket, SendsAndReceivesFramesBlocking) {
  Sockets ends;
  const std::string large(3 << 20, 'x');  // more than the kernel takes at once
  std::future<void> other = std::async(std::launch::async, [&] {
    const Result<std::string> received = ends.server.receive_frame(soon());
    EXPECT_TRUE(received && ends.server.send_frame(*received + large, soon()));
  });
  ASSERT_TRUE(ends.client.send_frame("hello", soon()));
  const Result<std::string> received = ends.client.receive_frame(soon());
  EXPECT_TRUE(received && *received == "hello" + large);
  other.get();
}

TEST(SealedSocket, WorksWithAnEventLoop) {
  Sockets ends;
  ends.client.frames().queue("hello");
  EXPECT_TRUE(ends.client.flush());         // the opening
  EXPECT_TRUE(ends.server.take_arrived());  // which is answered at once
  EXPECT_TRUE(ends.client.take_arrived());  // and what had to wait for the answer goes
  EXPECT_EQ(ends.client.frames().unsent(), 0U);
  EXPECT_TRUE(ends.server.take_arrived());
  EXPECT_EQ(ends.server.frames().next(), "hello");
}

TEST(SealedSocket, KeepsUnsentBytesForTheNextFlush) {
  Sockets ends;
  ASSERT_TRUE(ends.client.flush() && ends.server.take_arrived() && ends.client.take_arrived());
  const std::string large(3 << 20, 'x');
  ends.client.frames().queue(large);
  EXPECT_TRUE(ends.client.flush());
  EXPECT_GT(ends.client.frames().unsent(), 0U);
  std::optional<std::string> received;
  while (!received) {
    ASSERT_TRUE(ends.client.flush() && ends.server.take_arrived());
    received = ends.server.frames().next();
  }
  EXPECT_EQ(*received, large);
  EXPECT_EQ(ends.client.frames().unsent(), 0U);
}

TEST(SealedSocket, ReportsWhyNoFrameArrived) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  Socket client(ends[0], End::Client, sealed_with());
  Socket plain(ends[1]);
  EXPECT_THAT(client.send_frame("hello", Clock::now()).error().reason, HasSubstr("no answer in time"));
  ASSERT_TRUE(plain.send_frame("hello", soon()));
  EXPECT_THAT(client.receive_frame(soon()).error().reason, HasSubstr("not a rollcall process that knows the secret"));

  Sockets others;
  others.server = Socket();
  EXPECT_THAT(others.client.receive_frame(soon()).error().reason, HasSubstr("closed"));
}

}  // namespace
}  // namespace rollcall::rendezvous
