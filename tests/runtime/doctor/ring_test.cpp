#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/doctor/wire/benchmark.h"
#include "runtime/rendezvous/handshake.h"
#include "runtime/rendezvous/listener.h"
#include "tests/support/crowd.h"
#include "tests/support/plain_peer.h"

namespace rollcall::doctor {
namespace {

using testing::HasSubstr;

/// Runs `member` on a thread for each of `size` members, connected in a ring.
void in_ring(std::uint32_t size, std::chrono::milliseconds patience, const std::function<void(Ring&)>& member) {
  std::vector<Socket> right(size);
  std::vector<Socket> left(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    right[i] = Socket(ends[0]);
    left[(i + 1) % size] = Socket(ends[1]);
  }
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      Ring ring(left[i], right[i], i, size, Clock::now() + patience);
      member(ring);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

/// Element i of member m is 100 m + i.
std::vector<float> data_of(const Ring& ring, std::size_t length) {
  std::vector<float> data(length);
  std::iota(data.begin(), data.end(), 100.0F * static_cast<float>(ring.index()));
  return data;
}

class DoctorRing : public testing::TestWithParam<std::uint32_t> {};

TEST_P(DoctorRing, AllReduceGivesTheSum) {
  const std::uint32_t size = GetParam();
  const std::size_t length = std::size_t{size} * 3;
  in_ring(size, std::chrono::seconds(60), [&](Ring& ring) {
    const auto n = static_cast<float>(size);
    std::vector<float> sum(length);
    for (std::size_t i = 0; i < length; ++i) {
      sum[i] = n * static_cast<float>(i) + 100 * n * (n - 1) / 2;
    }
    std::vector<float> data = data_of(ring, length);
    ASSERT_TRUE(ring.all_reduce(data));
    EXPECT_EQ(data, sum);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, DoctorRing, testing::Values(2, 3, 4, 7));

TEST(DoctorBenchmark, MeasuresAndVerifies) {
  std::vector<Benchmark> members(3);
  in_ring(3, std::chrono::seconds(120), [&](Ring& ring) { members[ring.index()] = run_benchmark(ring); });
  const Benchmark all = combine(members);
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.ranks, 3U);
  ASSERT_GE(all.rows.size(), 1U);
  for (const Measurement& row : all.rows) {
    EXPECT_EQ(row.bytes % (3 * sizeof(float)), 0U);
    EXPECT_GT(row.gigabytes, 0) << row.operation;
  }
}

TEST(DoctorBenchmark, ConnectionsOfOtherProcessesDoNotBlockTheNeighbour) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(10);
  const auto secret = rendezvous::Secret::of("drawn", "7.0.0");
  std::array<RingMember, 2> members{RingMember(secret), RingMember(secret)};
  const auto endpoint = [&](std::size_t i) { return rendezvous::Endpoint{"127.0.0.1", members.at(i).port()}; };
  const Socket silent(rendezvous::connect_once(endpoint(0), deadline).descriptor);
  Socket other_step(rendezvous::connect_once(endpoint(0), deadline).descriptor, rendezvous::End::Client,
                    {rendezvous::Secret::of("drawn", "8.0.0"), "ring"});
  other_step.frames().queue(to_text(rendezvous::Hello{}));
  ASSERT_TRUE(other_step.flush());
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(members.at(i).connect({endpoint(1 - i)}, deadline), "");
  }
  std::array<Benchmark, 2> results;
  std::thread second([&] { results[1] = members[1].measure(1, 2, deadline); });
  results[0] = members[0].measure(0, 2, deadline);
  second.join();
  EXPECT_EQ(results[0].error + results[1].error, "");
}

/// Of connections to a listener that accepts none yet (listen(2)).
std::size_t nearly_as_many_as_the_kernel_keeps() {
  std::size_t longest_queue = 0;
  std::ifstream("/proc/sys/net/core/somaxconn") >> longest_queue;
  longest_queue = std::min<std::size_t>(longest_queue, 2048);
  return longest_queue - longest_queue / 32;
}

TEST(DoctorBenchmark, FiveThousandForeignConnectionsDoNotBlockTheNeighbourOrUseMuchMemory) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root may open so many files everywhere";
  }
  const std::size_t queue = nearly_as_many_as_the_kernel_keeps();  // until measuring begins
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  const auto secret = rendezvous::Secret::of("drawn", "7.0.0");
  std::array<RingMember, 3> members{RingMember(secret), RingMember(secret), RingMember(secret)};
  const std::size_t before = resident_kilobytes();
  const std::ptrdiff_t open_before = open_descriptors();
  const Crowd crowd(members[0].port(), queue);
  EXPECT_TRUE(crowd.await());
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(members.at(i).connect({{"127.0.0.1", members.at((i + 1) % 3).port()}}, deadline), "");
  }
  std::array<Benchmark, 3> results;
  std::vector<std::thread> threads;
  const auto start = [&](std::uint32_t i) {
    threads.emplace_back([&, i] { results.at(i) = members.at(i).measure(i, 3, deadline); });
  };
  start(2);  // the left neighbour
  start(0);
  const Crowd more(members[0].port(), 5000 - queue);
  EXPECT_TRUE(more.await()) << "the member accepts them until its right neighbour has begun";
  EXPECT_LT(resident_kilobytes(), before + 16'384) << "some 256 wait at a time, with 4 KiB each";
  EXPECT_LT(open_descriptors(), open_before + 400);
  start(1);
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(results[0].error + results[1].error + results[2].error, "");
}

TEST(DoctorBenchmark, RefusesANeighbourThatAnnouncesAFrameAboveTheLimit) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(10);
  const auto own = rendezvous::Listener::on_all_addresses(0);
  ASSERT_TRUE(own);
  RingMember member(rendezvous::Secret::of("drawn", "7.0.0"));
  ASSERT_EQ(member.connect({{"127.0.0.1", own->port()}}, deadline), "");
  Result<Socket> neighbour = accept_one(own->descriptor(), deadline);
  ASSERT_TRUE(neighbour);
  const std::string sent = std::string(rendezvous::Sealing::kProtocol) + std::string(32, 'r') +
                           std::string("\0\x10\0\0", 4);  // a text of 1 MiB
  ASSERT_EQ(send(neighbour->descriptor(), sent.data(), sent.size(), MSG_NOSIGNAL), static_cast<ssize_t>(sent.size()));
  EXPECT_EQ(member.measure(0, 2, deadline).error, "the right neighbour does not know this step's secret");
}

/// Forwards bytes from `from` to `to` and flips one bit of byte `place`, until the connection ends.
void corrupt(int from, int to, std::size_t place) {
  std::array<char, 4096> bytes{};
  std::size_t passed = 0;
  for (ssize_t count = 0; (count = read(from, bytes.data(), bytes.size())) > 0;) {
    const auto size = static_cast<std::size_t>(count);
    if (place >= passed && place < passed + size) {
      bytes[place - passed] = static_cast<char>(bytes[place - passed] ^ 0x40);
    }
    passed += size;
    if (send(to, bytes.data(), size, MSG_NOSIGNAL) != count) {
      break;
    }
  }
  close(from);
  close(to);
}

// With two members the barrier before the first operation sends two values of four bytes on each link; then come the
// sums.
TEST(DoctorBenchmark, ReportsDataCorruptedByTheNetwork) {
  constexpr std::size_t kBarrier = 2 * sizeof(float);
  std::array<std::array<int, 2>, 3> pairs{};
  for (auto& pair : pairs) {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  }
  std::array<Benchmark, 2> members;
  {
    Socket first_right(pairs[0][0]);
    Socket second_left(pairs[1][1]);
    Socket second_right(pairs[2][0]);
    Socket first_left(pairs[2][1]);
    std::thread middle([&] { corrupt(pairs[0][1], pairs[1][0], kBarrier + 3); });
    const auto run = [](Socket& left, Socket& right, std::uint32_t index) {
      Ring ring(left, right, index, 2, Clock::now() + std::chrono::seconds(60));
      return run_benchmark(ring);
    };
    std::thread second([&] { members[1] = run(second_left, second_right, 1); });
    members[0] = run(first_left, first_right, 0);
    second.join();
    first_right = Socket();
    middle.join();
  }
  EXPECT_THAT(members[0].error + members[1].error, HasSubstr("all-reduce gave wrong data"));
}

TEST(DoctorBenchmark, ReportsANeighbourThatDoesNotAnswerInTime) {
  in_ring(3, std::chrono::milliseconds(50), [](Ring& ring) {
    std::vector<float> data(3);
    if (ring.index() != 1) {
      // Member 1's sockets stay open until all threads have ended: only the deadline can tell.
      const Result<void> done = ring.all_reduce(data);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().reason, "no answer in time");
    }
  });
}

TEST(DoctorBenchmark, TakesTheSlowestMemberAndTheBandwidthOfALink) {
  const Benchmark fast{4, "", {{"all-reduce", 8'000'000, 0.001, 0}, {"all-reduce", 16'000'000, 0.004, 0}}};
  const Benchmark slow{4, "", {{"all-reduce", 8'000'000, 0.002, 0}, {"all-reduce", 16'000'000, 0.002, 0}}};
  const Benchmark all = combine({fast, slow});
  EXPECT_DOUBLE_EQ(all.rows[0].seconds, 0.002);
  EXPECT_NEAR(all.rows[0].gigabytes, 6, 1e-9);  // 8 MB x 2 x 3/4 in 2 ms
  EXPECT_NEAR(all.rows[1].gigabytes, 6, 1e-9);  // 16 MB x 2 x 3/4 in 4 ms
}

TEST(DoctorBenchmark, FailsWhenOneMemberFails) {
  const Benchmark fine{2, "", {{"all-reduce", 8, 1, 0}}};
  EXPECT_THAT(combine({fine, Benchmark{2, "all-reduce gave wrong data", {}}}).error, HasSubstr("wrong data"));
}

}  // namespace
}  // namespace rollcall::doctor
