// The guarantees of checkpoint copies, one per test, on a device that copies as late as it may.

#include "trainer/checkpoint/live_content.h"

#include <gtest/gtest.h>

#include "tests/support/multiproc.h"
#include "tests/support/stand_in_device.h"

namespace rollcall::checkpoint {
namespace {

using testing_support::all_succeeded;
using testing_support::report;
using testing_support::spawn;
namespace stand_in = testing_support::stand_in;

constexpr bool kAtOnce = true;
constexpr bool kByTheOptimizer = false;

at::Tensor on_device(double value) { return torch::full({20, 50}, value).to(stand_in::device()); }

bool is(const at::Tensor& tensor, double value) { return tensor.to(at::kCPU).eq(value).all().item<bool>(); }

at::Tensor copy_one(DeviceCopies& copies, const at::Tensor& rows, bool changes_at_once) {
  return copies.copy({{rows, changes_at_once}}).at(0);
}

/// In a process of its own: a device starts threads, and other tests fork.
void run(const std::function<void()>& test) {
  const auto ranks = spawn(1, [&](testing_support::Rank& /*rank*/) { test(); });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(DeviceCopies, ContainResultsOfEarlierOperators) {
  run([] {
    DeviceCopies copies;
    for (const bool changes_at_once : {kAtOnce, kByTheOptimizer}) {
      const at::Tensor rows = on_device(0);
      rows.copy_(on_device(1));  // late
      const at::Tensor host = copy_one(copies, rows, changes_at_once);
      copies.wait();
      MULTIPROC_CHECK(host.is_cpu() && host.is_contiguous() && is(host, 1));
    }
  });
}

TEST(DeviceCopies, OfTensorsThatChangeAtOncePrecedeTheNextOperator) {
  run([] {
    DeviceCopies copies;
    const at::Tensor rows = on_device(1);
    const at::Tensor host = copy_one(copies, rows, kAtOnce);
    rows.copy_(on_device(2));
    MULTIPROC_CHECK(is(rows, 2));
    copies.wait();
    MULTIPROC_CHECK(is(host, 1));
  });
}

TEST(DeviceCopies, OfOptimizerTensorsPrecedeWhatFollowsBlockComputeStream) {
  run([] {
    DeviceCopies copies;
    const at::Tensor rows = on_device(1);
    const at::Tensor host = copy_one(copies, rows, kByTheOptimizer);
    copies.block_compute_stream();
    rows.copy_(on_device(2));
    MULTIPROC_CHECK(is(rows, 2));
    copies.wait();
    MULTIPROC_CHECK(is(host, 1));
  });
}

TEST(DeviceCopies, ComputationRunsOnUntilBlockComputeStream) {
  run([] {
    DeviceCopies copies;
    const at::Tensor rows = on_device(1);
    const at::Tensor host = copy_one(copies, rows, kByTheOptimizer).fill_(7);
    MULTIPROC_CHECK(is(rows + 1, 2));  // the computing stream has done all that it was given
    MULTIPROC_CHECK(is(host, 7));
    copies.wait();
    MULTIPROC_CHECK(is(host, 1));
  });
}

at::Tensor large(double value) { return torch::full({200, 50, 3, 3}, value).to(stand_in::device()); }

TEST(DeviceCopies, ReuseTheirMemoryIfItFits) {
  run([] {
    DeviceCopies copies;
    const auto sources = [](double value) {
      return std::vector<DeviceCopies::Source>{{large(value), kAtOnce},
                                               {large(value + 1), kByTheOptimizer},
                                               {on_device(value + 2), kAtOnce},
                                               {on_device(value + 3), kByTheOptimizer}};
    };
    const std::vector<at::Tensor> first = copies.copy(sources(1));
    copies.wait();
    const std::vector<at::Tensor> again = copies.copy(sources(5));
    copies.wait();
    for (std::size_t i = 0; i < first.size(); ++i) {
      MULTIPROC_CHECK(again[i].const_data_ptr() == first[i].const_data_ptr() && is(again[i], 5.0 + double(i)));
    }
    const at::Tensor half = copy_one(copies, large(4).narrow(0, 0, 100), kAtOnce);
    copies.wait();
    MULTIPROC_CHECK(half.size(0) == 100 && is(half, 4));
  });
}

TEST(DeviceCopies, HaveTheStridesOfTheDevice) {
  run([] {
    DeviceCopies copies;
    for (const auto& values : {torch::rand({200, 50, 3, 3}), torch::rand({2, 5, 3, 3})}) {  // alone, and packed
      for (const bool changes_at_once : {kAtOnce, kByTheOptimizer}) {
        const at::Tensor there =
            values.to(stand_in::device(), at::kFloat, false, false, at::MemoryFormat::ChannelsLast);
        const std::int64_t reordered = stand_in::counts().reordered_copies;
        const std::vector<at::Tensor> hosts = copies.copy({{there, changes_at_once}, {on_device(3), changes_at_once}});
        MULTIPROC_CHECK(stand_in::counts().reordered_copies == reordered);
        copies.wait();
        MULTIPROC_CHECK(hosts[0].strides() == there.strides() && hosts[0].equal(values) && is(hosts[1], 3));
      }
    }
    const at::Tensor columns = on_device(5).narrow(1, 0, 10);  // there is more between them
    MULTIPROC_CHECK(copy_one(copies, columns, kByTheOptimizer).is_contiguous());
    copies.wait();
  });
}

TEST(DeviceCopies, OfSmallTensorsAreOneForEachTypeAndStream) {
  run([] {
    DeviceCopies copies;
    std::vector<DeviceCopies::Source> sources;
    std::vector<at::Tensor> expected;
    for (int i = 0; i < 40; ++i) {
      const at::Tensor floats = torch::rand({i + 1});
      const at::Tensor number = torch::full({}, std::int64_t{i}, at::kLong);
      const bool changes_at_once = i % 3 == 0;
      expected.insert(expected.end(), {floats, number});
      sources.push_back({floats.to(stand_in::device()), changes_at_once});
      sources.push_back({number.to(stand_in::device()), changes_at_once});
    }
    copies.make_room(sources);
    const stand_in::Counts before = stand_in::counts();
    const std::vector<at::Tensor> hosts = copies.copy(sources);
    const stand_in::Counts after = stand_in::counts();
    MULTIPROC_CHECK(after.copies_to_host - before.copies_to_host == 4);
    MULTIPROC_CHECK(after.events - before.events == 2);
    copies.wait();
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      MULTIPROC_CHECK(hosts[i].equal(expected[i]));
    }
  });
}

TEST(DeviceCopies, DoNotBlockTheHost) {
  run([] {
    DeviceCopies copies;
    const at::Tensor rows = large(1);
    const at::Tensor small = on_device(1);
    const std::int64_t waits = stand_in::counts().host_waits;
    for (const bool changes_at_once : {kAtOnce, kByTheOptimizer}) {
      (void)copies.copy({{rows, changes_at_once},
                         {rows.transpose(0, 1), changes_at_once},
                         {rows.narrow(1, 0, 10), changes_at_once},
                         {small, changes_at_once}});
    }
    MULTIPROC_CHECK(stand_in::counts().host_waits == waits);
    copies.wait();
  });
}

TEST(DeviceCopies, PageLockNothingAfterMakeRoom) {
  run([] {
    StateParts parts;
    parts.add("/model/weight", "weight", large(1));
    parts.add("/model/bias", "bias", torch::full({7}, 2.0F).to(stand_in::device()));
    parts.add("/model/of_host", "of_host", torch::full({9}, 3.0F));
    parts.share(0, 1);
    DeviceCopies copies;
    const std::int64_t at_first = stand_in::counts().page_locks;
    make_room(parts, {"weight"}, copies);
    const std::int64_t made = stand_in::counts().page_locks;
    MULTIPROC_CHECK(made == at_first + 2);
    (void)live_content(parts, {"weight"}, copies);
    copies.wait();
    MULTIPROC_CHECK(stand_in::counts().page_locks == made);
  });
}

TEST(DeviceCopies, WaitReturnsAtOnceWithoutCopies) {
  DeviceCopies copies;
  copies.block_compute_stream();
  copies.wait();
}

std::vector<float> floats(const format::StridedBytes& values) {
  const auto* const first = reinterpret_cast<const float*>(values.data);
  return {first, first + 2};
}

TEST(DeviceCopies, SnapshotATrainingStateForASave) {
  run([] {
    const at::Tensor parameter = torch::full({2}, 1.0F).to(stand_in::device());
    const at::Tensor statistic = torch::full({2}, 3.0F).to(stand_in::device());
    StateParts parts;
    parts.add("/model/weight", "weight", parameter);
    parts.add("/model/running_mean", "running_mean", statistic);
    parts.share(0, 1);
    DeviceCopies copies;
    const background::LiveContent live = live_content(parts, {"weight"}, copies);
    statistic.fill_(4);  // by the next forward pass
    copies.block_compute_stream();
    parameter.fill_(2);  // by the optimizer
    MULTIPROC_CHECK(live.wait_arrived().has_value());
    MULTIPROC_CHECK(live.tensors[0].is_copy && !live.tensors[0].changes_at_once);
    MULTIPROC_CHECK(live.tensors[1].is_copy && live.tensors[1].changes_at_once);
    MULTIPROC_CHECK(floats(live.tensors[0].values) == (std::vector<float>{1, 1}));
    MULTIPROC_CHECK(floats(live.tensors[1].values) == (std::vector<float>{3, 3}));
  });
}

}  // namespace
}  // namespace rollcall::checkpoint
