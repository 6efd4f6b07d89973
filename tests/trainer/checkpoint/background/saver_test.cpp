#include "trainer/checkpoint/background/saver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <vector>

namespace rollcall::checkpoint::background {
namespace {

constexpr RetryPolicy kAtOnce{.retries = 2, .first_pause = std::chrono::duration<double>(0)};

/// A training of two tensors: a parameter, which only the optimizer changes, and a statistic, which a forward does.
struct Training {
  std::vector<float> parameter = std::vector<float>(100'000, 0);
  std::vector<float> statistic = std::vector<float>(100, 0);

  [[nodiscard]] LiveContent live() const {
    LiveContent content;
    content.tensors.push_back(tensor("/model/weight", parameter, false));
    content.tensors.push_back(tensor("/model/mean", statistic, true));
    return content;
  }
  static LiveTensor tensor(const char* path, const std::vector<float>& values, bool changes_at_once) {
    const auto size = static_cast<std::int64_t>(values.size());
    const auto* const data = reinterpret_cast<const std::byte*>(values.data());
    return {{path, "", format::DType::Float32, {size}, {}}, {data, sizeof(float), {size}, {1}}, changes_at_once};
  }
  void forward(float step) { std::fill(statistic.begin(), statistic.end(), step); }
  void optimizer_step(float step) { std::fill(parameter.begin(), parameter.end(), step); }
};

bool holds_only(const format::TensorView& view, float value) {
  std::vector<float> values(view.bytes.size() / sizeof(float));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return !values.empty() && std::all_of(values.begin(), values.end(), [&](float v) { return v == value; });
}

// Under ThreadSanitizer this proves that the training may modify its tensors at these moments.
TEST(BackgroundSaver, SavesTheStateOfItsStepDuringFurtherTraining) {
  BackgroundSaver saver(kAtOnce);
  Training training;
  constexpr int kSaves = 20;
  int saved = 0;
  for (float step = 1; saved < kSaves; ++step) {
    training.forward(step);
    saver.wait_copied();
    training.optimizer_step(step);
    if (!saver.busy()) {
      if (const auto outcome = saver.take_outcome()) {
        EXPECT_TRUE(outcome->written) << outcome->written.error().message();
        ++saved;
      }
      ASSERT_TRUE(saver.start(static_cast<std::int64_t>(step), training.live(), [step](const format::Content& content) {
        const bool right = holds_only(content.tensors.at(0), step) && holds_only(content.tensors.at(1), step);
        return right ? Result<void>() : fail("checkpoint", "", "mixes steps", "", ErrorKind::Internal);
      }));
    }
  }
  saver.wait();  // it may still read what `training` has
}

TEST(BackgroundSaver, WritesOnlyWhenAllIsCopied) {
  BackgroundSaver saver(kAtOnce);
  Training training;
  training.parameter.assign(16 << 20, 1);  // takes far longer to copy than a thread to begin
  ASSERT_TRUE(saver.start(1, training.live(), [](const format::Content& content) {
    float last = 0;
    std::memcpy(&last, &content.tensors.at(0).bytes.back() - sizeof last + 1, sizeof last);
    return last == 1 ? Result<void>() : fail("checkpoint", "", "is not all there", "", ErrorKind::Internal);
  }));
  saver.wait();
  const auto outcome = saver.take_outcome();
  EXPECT_TRUE(outcome->written) << outcome->written.error().message();
}

TEST(BackgroundSaver, IsBusyUntilWrittenAndReturnsTheOutcomeOnce) {
  BackgroundSaver saver(kAtOnce);
  const Training training;
  std::promise<void> go_on;
  ASSERT_TRUE(saver.start(7, training.live(), [&](const format::Content&) {
    go_on.get_future().wait();
    return Result<void>();
  }));
  EXPECT_TRUE(saver.busy());
  EXPECT_FALSE(saver.take_outcome());
  saver.wait_copied();  // the state is free long before the file is there
  EXPECT_TRUE(saver.busy());
  go_on.set_value();
  saver.wait();
  const auto outcome = saver.take_outcome();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->step, 7);
  EXPECT_FALSE(saver.take_outcome());
}

TEST(BackgroundSaver, WritesDeviceCopiesAfterTheyArrive) {
  BackgroundSaver saver(kAtOnce);
  Training training;
  std::vector<float> host(training.parameter.size(), 0);
  std::promise<void> copied;
  LiveContent live = training.live();
  live.tensors[0] = Training::tensor("/model/weight", host, false);
  live.tensors[0].is_copy = true;
  live.wait_arrived = [&] {
    copied.get_future().wait();
    return Result<void>();
  };
  const auto* const in_place = reinterpret_cast<const std::byte*>(host.data());
  ASSERT_TRUE(saver.start(1, std::move(live), [&](const format::Content& content) {
    const bool right = holds_only(content.tensors.at(0), 5) && holds_only(content.tensors.at(1), 0) &&
                       content.tensors.at(0).bytes.data() == in_place;
    return right ? Result<void>() : fail("checkpoint", "", "mixes steps", "", ErrorKind::Internal);
  }));
  saver.wait_copied();  // the training goes on before the device is done
  training.optimizer_step(7);
  EXPECT_TRUE(saver.busy());
  std::fill(host.begin(), host.end(), 5.0F);
  copied.set_value();
  saver.wait();
  const auto outcome = saver.take_outcome();
  EXPECT_TRUE(outcome->written) << outcome->written.error().message();
}

TEST(BackgroundSaver, WritesDeviceCopiesOfOtherStridesRowMajor) {
  BackgroundSaver saver(kAtOnce);
  std::vector<float> host(6, -1);  // rows of two, in the order of columns
  LiveContent live;
  live.tensors.push_back(Training::tensor("/model/weight", host, false));
  live.tensors[0].values.sizes = live.tensors[0].view.shape = {3, 2};
  live.tensors[0].values.strides = {1, 3};
  live.tensors[0].is_copy = true;
  live.wait_arrived = [&] {
    host = {0, 2, 4, 1, 3, 5};
    return Result<void>();
  };
  ASSERT_TRUE(saver.start(1, std::move(live), [&](const format::Content& content) {
    const std::vector<float> expected{0, 1, 2, 3, 4, 5};
    const bool right = std::ranges::equal(content.tensors.at(0).bytes, std::as_bytes(std::span(expected)));
    return right ? Result<void>() : fail("checkpoint", "", "is not row-major", "", ErrorKind::Internal);
  }));
  saver.wait();
  const auto outcome = saver.take_outcome();
  EXPECT_TRUE(outcome->written) << outcome->written.error().message();
}

TEST(BackgroundSaver, WritesNothingIfADeviceCopyFailed) {
  BackgroundSaver saver(kAtOnce);
  const Training training;
  LiveContent live = training.live();
  live.wait_arrived = [] { return Result<void>(fail("checkpoint", "", "device lost", "", ErrorKind::Unavailable)); };
  int tries = 0;
  ASSERT_TRUE(saver.start(1, std::move(live), [&](const format::Content&) {
    ++tries;
    return Result<void>();
  }));
  saver.wait();
  EXPECT_EQ(saver.take_outcome()->written.error().reason, "device lost");
  EXPECT_EQ(tries, 0);
}

Error disk_full() { return fail("checkpoint", "", "disk full", "", ErrorKind::InputOutput); }

TEST(BackgroundSaver, RetriesAndReturnsTheReasons) {
  BackgroundSaver saver(kAtOnce);
  const Training training;
  int tries = 0;
  ASSERT_TRUE(saver.start(1, training.live(), [&](const format::Content&) {
    return ++tries < 3 ? Result<void>(disk_full()) : Result<void>();
  }));
  saver.wait();
  const auto outcome = saver.take_outcome();
  EXPECT_TRUE(outcome->written);
  EXPECT_EQ(outcome->failures, std::vector<std::string>(2, "disk full"));
}

TEST(BackgroundSaver, GivesUpAfterTheLastRetryAndAtOnceOnALostPeerOrDevice) {
  BackgroundSaver saver(kAtOnce);
  const Training training;
  int tries = 0;
  ASSERT_TRUE(saver.start(1, training.live(), [&](const format::Content&) {
    ++tries;
    return Result<void>(disk_full());
  }));
  saver.wait();
  EXPECT_EQ(saver.take_outcome()->written.error().reason, "disk full");
  EXPECT_EQ(tries, 3);
  for (const ErrorKind kind : {ErrorKind::PeerLost, ErrorKind::PeerTimeout, ErrorKind::DeviceLost,
                               ErrorKind::DeviceOutOfMemory, ErrorKind::Unavailable}) {
    tries = 0;
    ASSERT_TRUE(saver.start(2, training.live(), [&](const format::Content&) {
      ++tries;
      return Result<void>(fail("process group", "", "is gone", "", kind));
    }));
    saver.wait();
    EXPECT_EQ(saver.take_outcome()->written.error().kind, kind);
    EXPECT_EQ(tries, 1);
  }
}

TEST(BackgroundSaver, DestructorInterruptsTheRetryPause) {
  const Training training;
  std::promise<void> failed;
  {
    BackgroundSaver saver({.retries = 1, .first_pause = std::chrono::hours(1)});
    ASSERT_TRUE(saver.start(1, training.live(), [&](const format::Content&) {
      failed.set_value();
      return Result<void>(disk_full());
    }));
    failed.get_future().wait();
  }
  SUCCEED();  // an hour earlier
}

}  // namespace
}  // namespace rollcall::checkpoint::background
