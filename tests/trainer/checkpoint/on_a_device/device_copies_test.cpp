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
      const at::Tensor host = copies.copy("rows", rows, changes_at_once);
      copies.wait();
      MULTIPROC_CHECK(host.is_cpu() && host.is_contiguous() && is(host, 1));
    }
  });
}

TEST(DeviceCopies, OfTensorsThatChangeAtOncePrecedeTheNextOperator) {
  run([] {
    DeviceCopies copies;
    const at::Tensor rows = on_device(1);
    const at::Tensor host = copies.copy("rows", rows, kAtOnce);
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
    const at::Tensor host = copies.copy("rows", rows, kByTheOptimizer);
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
    const at::Tensor host = copies.copy("rows", rows, kByTheOptimizer).fill_(7);
    MULTIPROC_CHECK(is(rows + 1, 2));  // the computing stream has done all that it was given
    MULTIPROC_CHECK(is(host, 7));
    copies.wait();
    MULTIPROC_CHECK(is(host, 1));
  });
}

TEST(DeviceCopies, ReuseTheirMemoryIfItFits) {
  run([] {
    DeviceCopies copies;
    const void* const first = copies.copy("rows", on_device(1), kAtOnce).const_data_ptr();
    copies.wait();
    const at::Tensor again = copies.copy("rows", on_device(2), kAtOnce);
    const at::Tensor other = copies.copy("other", on_device(3), kAtOnce);
    const at::Tensor half = copies.copy("half", on_device(4).narrow(0, 0, 10), kAtOnce);
    const at::Tensor columns = copies.copy("columns", on_device(5).narrow(1, 0, 10), kByTheOptimizer);
    copies.wait();
    MULTIPROC_CHECK(again.const_data_ptr() == first && other.const_data_ptr() != first);
    MULTIPROC_CHECK(is(again, 2) && is(other, 3) && is(half, 4) && is(columns, 5));
    MULTIPROC_CHECK(half.size(0) == 10 && columns.is_contiguous());
  });
}

TEST(DeviceCopies, DoNotBlockTheHost) {
  run([] {
    DeviceCopies copies;
    const at::Tensor rows = on_device(1);
    const std::int64_t waits = stand_in::counts().host_waits;
    for (const bool changes_at_once : {kAtOnce, kByTheOptimizer}) {
      (void)copies.copy("rows", rows, changes_at_once);
      (void)copies.copy("columns", rows.t(), changes_at_once);
    }
    MULTIPROC_CHECK(stand_in::counts().host_waits == waits);
    copies.wait();
  });
}

TEST(DeviceCopies, PageLockNothingAfterMakeRoom) {
  run([] {
    StateParts parts;
    parts.add("/model/weight", "weight", on_device(1));
    parts.add("/model/bias", "bias", torch::full({7}, 2.0F).to(stand_in::device()));
    parts.add("/model/of_host", "of_host", torch::full({9}, 3.0F));
    parts.share(0, 1);
    DeviceCopies copies;
    const std::int64_t at_first = stand_in::counts().page_locks;
    make_room(parts, copies);
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
