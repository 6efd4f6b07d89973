#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <numeric>
#include <thread>

#include "runtime/doctor/wire/benchmark.h"
#include "runtime/doctor/wire/ring.h"

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

TEST_P(DoctorRing, EveryOperationGivesWhatItMust) {
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

    data = data_of(ring, length);
    ASSERT_TRUE(ring.reduce_scatter(data));
    for (std::size_t i = ring.index() * 3; i < ring.index() * 3 + 3; ++i) {
      EXPECT_EQ(data[i], sum[i]);
    }

    data = data_of(ring, length);
    ASSERT_TRUE(ring.all_gather(data));
    for (std::size_t i = 0; i < length; ++i) {
      EXPECT_EQ(data[i], 100 * static_cast<float>(i / 3) + static_cast<float>(i));
    }

    data = data_of(ring, 200'000);  // several pieces, the last one short
    ASSERT_TRUE(ring.broadcast(data));
    EXPECT_EQ(data[199'999], 199'999.0F);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, DoctorRing, testing::Values(2, 3, 4, 7));

TEST(DoctorBenchmark, MeasuresAndVerifiesEveryOperation) {
  std::vector<Benchmark> members(3);
  in_ring(3, std::chrono::seconds(120), [&](Ring& ring) { members[ring.index()] = run_benchmark(ring); });
  const Benchmark all = combine(members);
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.ranks, 3U);
  ASSERT_GE(all.rows.size(), 4U);
  for (const Measurement& row : all.rows) {
    EXPECT_EQ(row.bytes % (3 * sizeof(float)), 0U);
    EXPECT_GT(row.gigabytes, 0) << row.operation;
  }
}

TEST(DoctorBenchmark, ReportsANeighbourThatLeaves) {
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

TEST(DoctorBenchmark, TheSlowestMemberCountsAndBandwidthIsWhatALinkCarries) {
  const Benchmark fast{4, "", {{"all-reduce", 8'000'000, 0.001, 0}, {"broadcast", 8'000'000, 0.004, 0}}};
  const Benchmark slow{4, "", {{"all-reduce", 8'000'000, 0.002, 0}, {"broadcast", 8'000'000, 0.002, 0}}};
  const Benchmark all = combine({fast, slow});
  EXPECT_DOUBLE_EQ(all.rows[0].seconds, 0.002);
  EXPECT_NEAR(all.rows[0].gigabytes, 6, 1e-9);  // 8 MB x 2 x 3/4 in 2 ms
  EXPECT_NEAR(all.rows[1].gigabytes, 2, 1e-9);  // 8 MB in 4 ms
}

TEST(DoctorBenchmark, OneMembersFailureIsTheWholesFailure) {
  const Benchmark fine{2, "", {{"all-reduce", 8, 1, 0}}};
  EXPECT_THAT(combine({fine, Benchmark{2, "all-gather gave wrong data", {}}}).error, HasSubstr("wrong data"));
}

}  // namespace
}  // namespace rollcall::doctor
