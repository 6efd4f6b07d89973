// Graph capture on the stand-in device, with the restrictions of CUDA.
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include "tests/support/stand_in_device.h"
#include "trainer/streams.h"

namespace rollcall::testing_support::stand_in {
namespace {

class DeviceGraphTest : public ::testing::Test {
 protected:
  at::Tensor here(const at::Tensor& tensor) { return tensor.to(at::kCPU); }
  at::Tensor there(const at::Tensor& tensor) { return tensor.to(device()); }

  const torch::NoGradGuard no_grad_;
  const c10::StreamGuard computing_{new_stream(device())};
};

TEST_F(DeviceGraphTest, RunsNothingAtCaptureAndEverythingAtEachReplay) {
  const at::Tensor x = there(torch::ones({2, 3, 8, 8}));
  const at::Tensor weight = there(torch::full({3, 3, 1, 1}, 2.0));
  const at::Tensor sum = there(torch::zeros({2, 3, 8, 8}));
  at::Tensor y;
  const auto replay = capture([&] {
    y = at::conv2d(x, weight).relu();
    sum.add_(y);
  });
  EXPECT_TRUE(here(sum).eq(0).all().item<bool>());
  replay();
  replay();
  EXPECT_TRUE(here(y).eq(6).all().item<bool>());
  EXPECT_TRUE(here(sum).eq(12).all().item<bool>());
  x.fill_(2);
  replay();
  EXPECT_TRUE(here(sum).eq(24).all().item<bool>());
}

TEST_F(DeviceGraphTest, ChangesRunningStatisticsOnlyAtReplay) {
  const at::Tensor x = there(torch::rand({4, 2, 3, 3}));
  const at::Tensor mean = there(torch::zeros({2}));
  const at::Tensor variance = there(torch::ones({2}));
  const auto norm = [&] { return at::native_batch_norm(x, {}, {}, mean, variance, true, 0.1, 1e-5); };
  const auto replay = capture([&] { (void)norm(); });
  EXPECT_TRUE(here(mean).eq(0).all().item<bool>() && here(variance).eq(1).all().item<bool>());
  replay();
  const at::Tensor captured = here(mean);
  mean.zero_();
  variance.fill_(1);
  (void)norm();
  EXPECT_TRUE(captured.equal(here(mean)));
}

TEST_F(DeviceGraphTest, KeepsMemoryOfTemporariesReserved) {
  const at::Tensor x = there(torch::ones({64}));
  at::Tensor y;
  const auto replay = capture([&] {
    at::Tensor twice = x * 2;
    y = twice + 1;
  });
  const at::Tensor other = there(torch::full({64}, 5.0));  // of the size of `twice`
  replay();
  EXPECT_TRUE(here(other).eq(5).all().item<bool>());
  EXPECT_TRUE(here(y).eq(3).all().item<bool>());
}

TEST_F(DeviceGraphTest, CapturesStreamsThatWaitForIt) {
  const at::Tensor x = there(torch::zeros({4}));
  const c10::Stream beside = new_stream(device());
  const auto replay = capture([&] {
    x.add_(1);
    c10::Event begun(device().type());
    begun.record(current_stream(device()));
    c10::Event done(device().type());
    {
      const c10::StreamGuard guard(beside);
      begun.block(beside);
      x.mul_(10);
      done.record(beside);
    }
    done.block(current_stream(device()));
    x.add_(1);
  });
  EXPECT_TRUE(here(x).eq(0).all().item<bool>());
  replay();
  EXPECT_TRUE(here(x).eq(11).all().item<bool>());
}

TEST_F(DeviceGraphTest, RejectsOperationsThatCudaForbidsDuringCapture) {
  const at::Tensor x = there(torch::ones({4}));
  const at::Tensor of_host = torch::ones({4});
  const c10::Stream beside = new_stream(device());
  c10::Event outside(device().type());
  outside.record(beside);
  EXPECT_THROW((void)capture([&] { (void)x.sum().item<float>(); }), c10::Error);
  EXPECT_THROW((void)capture([&] { (void)x.to(at::kCPU); }), c10::Error);
  EXPECT_THROW((void)capture([&] { x.copy_(of_host, /*non_blocking=*/true); }), c10::Error);
  EXPECT_THROW((void)capture([&] { (void)x.nonzero(); }), c10::Error);
  EXPECT_THROW((void)capture([&] { current_stream(device()).synchronize(); }), c10::Error);
  EXPECT_THROW((void)capture([&] { outside.block(current_stream(device())); }), c10::Error);
  EXPECT_THROW((void)capture([&] {
                 c10::Event begun(device().type());
                 begun.record(current_stream(device()));
                 (void)begun.query();
               }),
               c10::Error);
  EXPECT_THROW((void)capture([&] {
                 c10::Event begun(device().type());
                 begun.record(current_stream(device()));
                 begun.block(beside);  // and nothing waits for that stream
               }),
               c10::Error);
  const c10::StreamGuard guard(c10::Stream(c10::Stream::DEFAULT, device()));
  EXPECT_THROW((void)capture([] {}), c10::Error);
}

}  // namespace
}  // namespace rollcall::testing_support::stand_in
