#include "trainer/train/failure_report.h"

#include <gtest/gtest.h>
#include <atomic>
#include <future>
#include <memory>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "runtime/store/server.h"
#include "tests/support/ended_by_launcher.h"

namespace rollcall::train {
namespace {

using process_group::Membership;

Error disk_full() { return fail("checkpoint", "", "disk full", "", ErrorKind::InputOutput); }
Error peer_lost() { return fail("process group", "", "a peer was lost", "", ErrorKind::PeerLost); }

/// Three ranks, each with its own failure report.
class FailureReportTest : public testing::Test {
 protected:
  explicit FailureReportTest(c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>())
      : store_(std::move(store)) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const auto membership = std::make_shared<Membership>();
      membership->join(store_, rank, 3);
      memberships_.push_back(membership);
      reports_.emplace_back(rank, rank, "node" + std::to_string(rank));
      reports_.back().attach(membership, store_);
    }
    testing::internal::CaptureStderr();
  }
  ~FailureReportTest() override { (void)told(); }

  /// Since the last call.
  std::string told() {
    if (!std::exchange(captured_, true)) {
      return testing::internal::GetCapturedStderr();
    }
    return "";
  }
  int of(std::uint32_t rank, const Error& error) { return reports_.at(rank).report_own(error); }

  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<std::shared_ptr<Membership>> memberships_;
  std::vector<FailureReport> reports_;

 private:
  bool captured_ = false;
};

TEST_F(FailureReportTest, IsPrintedByTheFirstRankThatFails) {
  EXPECT_EQ(of(2, disk_full()), to_int(ExitCode::InputOutput));
  EXPECT_EQ(of(1, fail("loss", "nan", "is not finite", "", ErrorKind::BadData)), to_int(ExitCode::BadData));
  const std::string lines = told();
  EXPECT_NE(lines.find("disk full"), std::string::npos) << lines;
  EXPECT_NE(lines.find("(rank 2 on node2)"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("is not finite"), std::string::npos) << lines;
}

TEST_F(FailureReportTest, OfAllConnectedRanksIsPrintedByRank0WhichTheOthersOutlive) {
  auto other = std::async(std::launch::async, [&] {
    const int code = reports_.at(1).report_on_rank_zero(disk_full());
    return std::pair(code, store_->check({store::left_key(0)}));
  });
  EXPECT_EQ(reports_.at(0).report_on_rank_zero(disk_full()), to_int(ExitCode::InputOutput));
  EXPECT_EQ(other.get(), std::pair(to_int(ExitCode::InputOutput), true)) << "it ends once rank 0 has left";
  const std::string lines = told();
  EXPECT_NE(lines.find("(rank 0 on node0)"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("(rank 1"), std::string::npos) << lines;
}

TEST_F(FailureReportTest, IsPrintedOnceByARankThatReportsItTwice) {
  of(1, disk_full());
  of(1, disk_full());
  const std::string lines = told();
  EXPECT_EQ(lines.find("disk full"), lines.rfind("disk full")) << lines;
}

TEST_F(FailureReportTest, PeerLossExitsWithTheCodeAndCauseOfTheFailedRank) {
  EXPECT_EQ(of(0, fail("--backend", "mpi", "", "", ErrorKind::Usage)), to_int(ExitCode::Usage));
  const FailureReport::Reported other = reports_.at(1).report_once(peer_lost());
  EXPECT_EQ(other.exit_code, to_int(ExitCode::Usage));
  EXPECT_EQ(other.cause.value, "mpi");
  reports_.at(1).shutdown_grace();
}

TEST_F(FailureReportTest, NamesAFailedDeviceEvenIfAPeerReportsTheLossFirst) {
  memberships_.at(2)->device_fails(fail("--device", "", "fell off the bus", "", ErrorKind::DeviceLost));
  const FailureReport::Reported other = reports_.at(1).report_once(peer_lost());
  EXPECT_EQ(other.cause.kind, ErrorKind::DeviceLost);
  reports_.at(1).shutdown_grace();
  (void)reports_.at(2).report_once(fail("--device", "GPU-1", "fell off the bus", "", ErrorKind::DeviceLost));
  reports_.at(2).shutdown_grace();
  const std::string lines = told();
  EXPECT_NE(lines.find("GPU-1: fell off the bus"), std::string::npos) << lines;
  EXPECT_NE(lines.find("(rank 2 on node2)"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("a peer was lost"), std::string::npos) << lines;
}

TEST_F(FailureReportTest, OfAPeerLostSilentlyIsPrintedByTheFirstRankToNotice) {
  of(1, peer_lost());
  of(0, peer_lost());
  reports_.at(1).shutdown_grace();
  const std::string lines = told();
  EXPECT_NE(lines.find("(rank 1 on node1)"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("(rank 0"), std::string::npos) << lines;
  store_->set(store::left_key(2), std::vector<std::uint8_t>{1});  // as the server does for a connection that is closed
  reports_.at(0).shutdown_grace();
}

TEST(FailureReport, OfAllRanksIsLeftToRank0WhichTheOthersOutlive) {
  for (const std::uint32_t rank : {0U, 1U}) {
    testing::internal::CaptureStderr();
    const EndedByLauncher launcher;
    EXPECT_EQ(FailureReport(rank, 0, "node").report_on_rank_zero(disk_full()), to_int(ExitCode::InputOutput));
    EXPECT_EQ(launcher.sent(), rank != 0);
    EXPECT_EQ(testing::internal::GetCapturedStderr().empty(), rank != 0);
  }
}

TEST(FailureReport, EachNodePrintsOnceIfTheStoreWasLost) {
  testing::internal::CaptureStderr();
  for (const std::uint32_t rank : {2U, 3U}) {  // two nodes of two ranks: rank 1 went with rank 0
    FailureReport report(rank, rank % 2, "node1");
    EXPECT_EQ(report.report_once(peer_lost()).exit_code, to_int(ExitCode::Unavailable));
    report.shutdown_grace();
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("(rank 2 on node1)"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("(rank 3"), std::string::npos) << lines;
}

/// A store that blocks requests until the test releases them.
class SlowStore : public c10d::HashStore {
 public:
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override {
    if (slow) {
      asking.set_value();
      may_ask.get_future().wait();
    }
    return HashStore::compareSet(key, expected, desired);
  }

  std::atomic<bool> slow = false;
  std::promise<void> asking;
  std::promise<void> may_ask;
};

class FailureReportWithSlowStore : public FailureReportTest {
 protected:
  FailureReportWithSlowStore() : FailureReportTest(c10::make_intrusive<SlowStore>()) {}
};

TEST_F(FailureReportWithSlowStore, RankZeroServesTheStoreUntilAllRanksReadTheCause) {
  auto& store = static_cast<SlowStore&>(*store_);
  EXPECT_EQ(of(1, disk_full()), to_int(ExitCode::InputOutput));
  EXPECT_EQ(of(0, disk_full()), to_int(ExitCode::InputOutput));
  store.slow = true;
  std::future<int> code = std::async(std::launch::async, [&] { return of(2, peer_lost()); });
  store.asking.get_future().wait();
  std::future<void> lingers = std::async(std::launch::async, [&] { reports_.at(0).shutdown_grace(); });
  EXPECT_EQ(lingers.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  store.may_ask.set_value();
  EXPECT_EQ(code.get(), to_int(ExitCode::InputOutput));
  reports_.at(2).shutdown_grace();
  lingers.wait();
}

}  // namespace
}  // namespace rollcall::train
