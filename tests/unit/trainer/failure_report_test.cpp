#include "trainer/train/failure_report.h"

#include <gtest/gtest.h>
#include <future>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace rollcall::train {
namespace {

using std::chrono::seconds;

Error disk_full() { return fail("checkpoint", "", "disk full", "", ErrorKind::InputOutput); }

TEST(FailureReport, RankZeroLingersLongerWhereTheOthersStillLive) {
  FailureReport report(0, 0, 2, "here");
  EXPECT_EQ(report.longest_linger(), seconds(1));
  EXPECT_EQ(report.own(disk_full()), to_int(ExitCode::InputOutput));
  EXPECT_EQ(report.longest_linger(), seconds(10));
}

TEST(FailureReport, IsToldByTheFirstRankThatHasOne) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  FailureReport first(2, 0, 3, "there");
  FailureReport second(1, 1, 3, "here");
  first.attach(store);
  second.attach(store);
  testing::internal::CaptureStderr();
  EXPECT_EQ(first.own(disk_full()), to_int(ExitCode::InputOutput));
  EXPECT_EQ(second.own(fail("loss", "nan", "is not finite", "", ErrorKind::BadData)), to_int(ExitCode::BadData));
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("disk full"), std::string::npos) << told;
  EXPECT_NE(told.find("(rank 2 on there)"), std::string::npos) << told;
  EXPECT_EQ(told.find("is not finite"), std::string::npos) << told;
}

TEST(FailureReport, ARankThatMissesAnotherEndsWithThatOnesCode) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  FailureReport cause(0, 0, 2, "here");
  FailureReport other(1, 1, 2, "here");
  cause.attach(store);
  other.attach(store);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cause.own(fail("--backend", "mpi", "", "", ErrorKind::Usage)), to_int(ExitCode::Usage));
  EXPECT_EQ(other.own(fail("store", "", "did not answer", "", ErrorKind::Unavailable)), to_int(ExitCode::Usage));
  testing::internal::GetCapturedStderr();
}

/// A store whose readers wait until the test lets them.
class SlowToRead : public c10d::HashStore {
 public:
  std::vector<std::uint8_t> get(const std::string& key) override {
    reading.set_value();
    may_read.get_future().wait();
    return HashStore::get(key);
  }

  std::promise<void> reading;
  std::promise<void> may_read;
};

TEST(FailureReport, RankZeroHoldsTheStoreUntilTheCausesCodeHasBeenReadByAll) {
  const auto store = c10::make_intrusive<SlowToRead>();
  FailureReport cause(1, 1, 3, "here");
  FailureReport holder(0, 0, 3, "here");
  FailureReport reader(2, 2, 3, "here");
  for (FailureReport* report : {&cause, &holder, &reader}) {
    report->attach(store);
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(cause.own(disk_full()), to_int(ExitCode::InputOutput));
  EXPECT_EQ(holder.own(disk_full()), to_int(ExitCode::InputOutput));
  std::future<int> code = std::async(std::launch::async, [&] {
    return reader.lost_peer(fail("process group", "", "a peer was lost", "", ErrorKind::Unavailable));
  });
  store->reading.get_future().wait();
  std::future<void> lingers = std::async(std::launch::async, [&] { holder.linger(); });
  EXPECT_EQ(lingers.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  store->may_read.set_value();
  EXPECT_EQ(code.get(), to_int(ExitCode::InputOutput));
  reader.linger();
  lingers.wait();
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace rollcall::train
